// What is done to a text before it is cut into words: a list of steps, as data.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/pattern.h"
#include "text/precompiled_charsmap.h"
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
struct Nmt {};        // controls leave, unusual white space becomes a space
// A grapheme cluster of fewer than 6 bytes that begins with a key of the table becomes what the shortest such key does,
// all of it; of the other clusters every character does that by itself.
using Precompiled = PrecompiledCharsmap;
using Step =
    std::variant<NormalForm, LowerCase, StripAccents, Strip, Replace, Prepend, Bert, ByteLevel, Nmt, Precompiled>;

}  // namespace normalize

class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<normalize::Step> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }
  struct Text {
    std::string text;
    // Bytes at its front that Hugging Face's offsets count as the caller's first character: what begins among them
    // begins the text. None when the beginning has been taken away.
    size_t front;
  };
  // text is valid UTF-8. The work is linear in it and in the result, but for the sorting of marks.
  // Throws Error(DoesNotFit) for a result that is too long.
  Text apply(std::string_view text) const;
  // Bytes of text that may become one byte, or nothing when there is no bound.
  std::optional<size_t> most_shrinking() const;
  // Bytes may come out that the text does not have.
  bool changes_bytes() const { return !steps_.empty(); }

 private:
  std::vector<normalize::Step> steps_;
  ByteAlphabet alphabet_;
};

}  // namespace lockstep
