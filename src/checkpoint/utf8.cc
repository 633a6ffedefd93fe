// A walk over the characters: the lead byte gives the number of bytes, the value must need that many.
#include "checkpoint/utf8.h"

#include <cstddef>
#include <cstdint>

namespace lockstep {

bool is_utf8(std::string_view text) {
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // [bytes]: the least value that needs them
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    size_t bytes = 0;
    if (lead < 0x80) {
      ++i;
      continue;
    } else if ((lead & 0xe0) == 0xc0) {
      bytes = 2;
    } else if ((lead & 0xf0) == 0xe0) {
      bytes = 3;
    } else if ((lead & 0xf8) == 0xf0) {
      bytes = 4;
    } else {
      return false;
    }
    if (bytes > text.size() - i) return false;
    uint32_t value = lead & (0x7fU >> bytes);
    for (size_t k = 1; k < bytes; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      value = value << 6 | (next & 0x3fU);
    }
    const bool surrogate = value >= 0xd800 && value <= 0xdfff;
    if (value < kLeast[bytes] || value > 0x10ffff || surrogate) return false;
    i += bytes;
  }
  return true;
}

}  // namespace lockstep
