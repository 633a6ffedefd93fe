// What is done to a text before it is cut into words: a list of steps, as data.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace lockstep {

namespace normalize {

struct LowerCase {};
struct StripAccents {};  // drops marks; what composed characters hold stays
struct Strip {           // white space
  bool left, right;
};
struct Replace {
  Pattern pattern;
  std::string content;
  std::optional<size_t> literal_bytes;  // of the pattern, where it is no regular expression
};
struct Prepend {
  std::string text;  // nothing is put before an empty text
};
struct Bert {
  bool clean, spaces_around_chinese, strip_accents, lower_case;
};
struct ByteLevel {};  // every byte as its character of the byte alphabet
using Step = std::variant<NormalForm, LowerCase, StripAccents, Strip, Replace, Prepend, Bert, ByteLevel>;

}  // namespace normalize

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<normalize::Step> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }
  struct Text {
    std::string text;
    bool cut_in_front;  // the beginning has been taken away
  };
  // text is valid UTF-8. The work is linear in it, but for the sorting of marks.
  Text apply(std::string_view text) const;
  // Bytes of text that may become one byte, or nothing when there is no bound.
  std::optional<size_t> most_shrinking() const;

 private:
  std::vector<normalize::Step> steps_;
  ByteAlphabet alphabet_;
};

}  // namespace lockstep
