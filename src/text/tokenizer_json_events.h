// tokenizer.json, read from beginning to end without keeping what is large: the vocabulary, the merges and the added
// tokens are handed over one by one, and only the small rest is kept.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/text.h"

namespace lockstep {

class TokenizerJsonVisitor {
 public:
  virtual ~TokenizerJsonVisitor() = default;
  // model.vocab: of an object its members, of an array its elements (with an empty key).
  virtual void vocabulary(const std::string& key, const nlohmann::json& value) = 0;
  virtual void merge(const nlohmann::json& value) = 0;
  virtual void added_token(const nlohmann::json& value) = 0;
};

// The file without model.vocab, model.merges and added_tokens. Throws Error(Malformed) for text that is no JSON or no
// UTF-8, nests more than 32 levels or has a member twice in one object (of the vocabulary, the visitor answers),
// Error(DoesNotFit) for a file above 256 MiB or with more than 65,536 other values.
nlohmann::json read_tokenizer_json(const JsonFile& file, TokenizerJsonVisitor& visitor);

// The same for the small files beside it: objects, of which what added_tokens_decoder holds is left out.
nlohmann::json read_small_json(const JsonFile& file);

}  // namespace lockstep
