// The byte-level alphabet of GPT-2: each of the 256 bytes is written as one visible character, so that a vocabulary
// file is text. Visible Latin-1 bytes stand for themselves; the other 68 become U+0100, U+0101, ... in order. A space
// is U+0120.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

class ByteAlphabet {
 public:
  ByteAlphabet();

  // The UTF-8 of the character that stands for the byte.
  std::string_view character(uint8_t byte) const { return characters_[byte]; }

  // The bytes that byte-level text stands for, or nothing when a character is outside the alphabet.
  std::optional<std::string> bytes(std::string_view text) const;

 private:
  std::array<std::string, 256> characters_;
  std::array<int16_t, 256 + 68> byte_of_;  // [code point], -1 outside the alphabet
};

}  // namespace lockstep
