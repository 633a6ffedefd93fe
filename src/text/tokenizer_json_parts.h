// The parts of tokenizer.json that are lists of steps: from JSON to data. Whatever is not known is refused by name.
#pragma once

#include <cstdint>
#include <vector>

#include "text/json_field.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"

namespace lockstep {

// The field may be null: no step. All throw Error(Malformed | Unsupported).
std::vector<normalize::Step> read_normalizer(const JsonField& field);

struct PreTokenizerSteps {
  std::vector<pre_tokenize::Step> steps;
  bool byte_level = false;  // words end as bytes in the byte alphabet, which is left to the model
};
PreTokenizerSteps read_pre_tokenizer(const JsonField& field);

std::vector<decode::Step> read_decoder(const JsonField& field);

struct PromptTokens {
  std::vector<int64_t> prefix, suffix;  // not yet checked
};
PromptTokens read_post_processor(const JsonField& field);

}  // namespace lockstep
