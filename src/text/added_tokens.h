// Tokens that are found in a text before anything else is done to it: special and user-defined ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/text.h"
#include "text/token_finder.h"

namespace lockstep {

struct AddedToken {
  std::string text;  // not empty
  TokenId id = -1;
  bool special = false;
  bool single_word = false;                        // not where a word goes on
  bool strips_left = false, strips_right = false;  // takes the white space beside it
  bool normalized = false;  // `text` is looked for in the normalised text; it is normalised itself
};

class AddedTokens {
 public:
  AddedTokens() : AddedTokens(std::vector<AddedToken>()) {}
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Segment {
    size_t begin, end;  // bytes
    TokenId id;         // -1: text between tokens
  };
  // The segments of a text, none empty: of the tokens that are (not) looked for in normalised text. As in Hugging Face
  // tokenizers, a token inside the white space that the last one took counts as well, unless it takes white space on
  // its left, and the text goes on behind it. With AsText the special tokens found are text; they still hide what lies
  // inside them. A special token that touches one of the `written` ranges is text as well.
  std::vector<Segment> find(std::string_view text, bool normalized, SpecialTokens special,
                            std::span<const TextRange> written) const;
  // Whether some special tokens are looked for in normalised text, where places in the text are lost.
  bool normalizes_special() const { return normalizes_special_; }
  // White space beside a token may leave nothing.
  bool drops_text() const { return drops_text_; }

 private:
  TokenFinder finder(bool normalized) const;

  std::vector<AddedToken> tokens_;
  TokenFinder raw_, normalized_;
  bool drops_text_ = false;
  bool normalizes_special_ = false;
};

}  // namespace lockstep
