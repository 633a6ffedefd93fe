// What the names in tokenizer.ggml.pre stand for.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

struct GgufPreTokenizer {
  std::string_view name;
  std::span<const std::string_view> patterns;  // applied one after another; matches are isolated
  bool nfc;                                    // text is normalised first
  bool ignore_merges;                          // a word that is a token is taken as it is, whatever the merges say
  bool add_bos;                                // a prompt begins with bos where tokenizer.ggml.add_bos_token is absent
};

// nullptr when the name is not known.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);
// "gpt-2, llama-bpe, ...", for messages.
std::string known_gguf_pre_tokenizers();

}  // namespace lockstep
