// Cutting text into pieces that merges never cross ("pre-tokenization"), by the patterns that GGUF files name in
// tokenizer.ggml.pre.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// All that depends on tokenizer.ggml.pre, as data.
struct PreTokenizerRule {
  std::string_view name;
  std::span<const std::string_view> patterns;  // applied one after another, each within the pieces of the last
  bool nfc;                                    // text is normalised first
  bool whole_pieces;                           // a piece that is a token is taken as it is, whatever the merges say
  bool add_bos;                                // a prompt begins with bos where tokenizer.ggml.add_bos_token is absent
};

// nullptr when the name is not known.
const PreTokenizerRule* find_pre_tokenizer(std::string_view name);
// "gpt-2, llama-bpe, ...", for messages.
std::string known_pre_tokenizers();

// The compiled patterns of one rule. split() may be called by several threads at once.
class PreTokenizer {
 public:
  explicit PreTokenizer(const PreTokenizerRule& rule);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;

  // Valid UTF-8 in; the pieces, none empty, are the text in order. Every match of a pattern and every stretch between
  // two matches is a piece.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  class Pattern;
  std::vector<Pattern> patterns_;
};

}  // namespace lockstep
