// The 256 characters, computed from the three ranges of visible Latin-1.
#include "text/byte_alphabet.h"

#include "base/utf8.h"

namespace lockstep {

ByteAlphabet::ByteAlphabet() {
  const auto visible = [](int b) { return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; };
  byte_of_.fill(-1);
  char32_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const char32_t c = visible(b) ? static_cast<char32_t>(b) : next++;
    append_utf8(characters_[static_cast<size_t>(b)], c);
    byte_of_[c] = static_cast<int16_t>(b);
  }
}

std::optional<std::string> ByteAlphabet::bytes(std::string_view text) const {
  std::string bytes;
  while (!text.empty()) {
    const auto [kind, length] = next_utf8(text);
    if (kind != Utf8Kind::Character) return std::nullopt;
    const char32_t c = decode_utf8(text.substr(0, length));
    if (c >= byte_of_.size() || byte_of_[c] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte_of_[c]));
    text.remove_prefix(length);
  }
  return bytes;
}

}  // namespace lockstep
