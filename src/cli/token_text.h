// Tokens on their way from the engine to the reader, as text.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "engine/engine.h"
#include "text/text.h"

namespace lockstep {

// Turns tokens into text as they come: whole characters only, up to a stop string. Without a tokenizer (nullptr), ids
// stand for the text.
class TokenText {
 public:
  // `shown`: special tokens whose text is given, too.
  TokenText(const Tokenizer* tokenizer, const std::vector<std::string>& stops, std::vector<TokenId> shown = {});
  std::string push(TokenId token);
  std::string finish();
  bool stopped() const { return stops_.stopped(); }  // by a stop string

 private:
  const Tokenizer* tokenizer_;
  std::optional<StreamDecoder> decoder_;
  StopMatcher stops_;
  std::vector<TokenId> shown_;
};

// Tokens that were decoded: the first comes out of the prefill, and the one that stops an answer was decoded as well.
int64_t decoded_tokens(const Completion& completion);

// Runs a request to its end and hands out its text as it comes: every few milliseconds write() gets what is new, which
// may be nothing, on the calling thread, so that it never holds up the ranks. `cancel` ends the request. Its own
// on_token and cancel are replaced. When the request fails, what was generated is written before the error is thrown.
Completion run_request(Engine& engine, Request request, TokenText& text,
                       FunctionRef<void(std::string_view piece)> write, std::stop_source cancel = {});

}  // namespace lockstep
