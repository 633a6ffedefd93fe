// A tokenizer as data: what the readers of files fill and Tokenizer runs. The order of the members is the way of a
// text.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/text.h"
#include "text/token_decoder.h"
#include "text/token_model.h"
#include "text/token_table.h"

namespace lockstep {

struct Pipeline {
  std::string description;
  TokenTable tokens;

  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<const TokenModel> model;    // refers to `tokens`, so a pipeline does not move
  std::vector<TokenId> prefix, suffix;        // what a prompt begins and ends with
  std::map<TokenId, std::string> decoded_as;  // the text of tokens for the decoder, where it is not the one in `tokens`
  std::vector<decode::Step> decoder;

  std::optional<TokenId> bos;
  std::vector<TokenId> stop_tokens;
  std::map<std::string, std::string> named_tokens;

  // A text that loses no byte is no longer than its tokens, but for what the normaliser makes shorter.
  bool is_bounded() const { return model->is_bounded() && !added.drops_text() && !pre_tokenizer.drops_text(); }
};

// Whether a token of this text is known to end an answer, whatever its file says.
bool ends_answers(std::string_view token);

// The tokens that end a generation, each once: those that the file names, and special ones that are known to end an
// answer, since many files name only one of the tokens their model ends it with.
std::vector<TokenId> stop_tokens_of(const TokenTable& tokens, std::span<const TokenId> named);

// Bounds of what one entry of a crafted file can cost. The longest known tokens are a few hundred bytes, added ones
// below a hundred. The automaton that finds added tokens takes about a hundred bytes for each of theirs; audio
// vocabularies, the largest users, have some tens of thousands of 20 bytes.
inline constexpr size_t kMostTokenBytes = size_t{64} << 10;
inline constexpr size_t kMostAddedTokenBytes = 1024;
inline constexpr size_t kMostAddedBytes = size_t{4} << 20;
inline constexpr size_t kMostVocabularyBytes = size_t{256} << 20;  // of all tokens' texts

}  // namespace lockstep
