// Values are checked once, as the table is read; steps through the trie as they are made, for a trie may lead anywhere.
#include "text/precompiled_charsmap.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace lockstep {
namespace {

constexpr size_t kMostReplacement = 1024;  // bytes; the longest of Unicode's compatible forms has 33
constexpr uint32_t kIsValue = uint32_t{1} << 31;

std::optional<uint32_t> base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return std::nullopt;
}

// RFC 4648, section 4: padded, without white space, and unused bits are 0.
std::string bytes_of_base64(std::string_view text, std::string_view where) {
  if (text.size() % 4 != 0) {
    fail(ErrorKind::Malformed, "{} has {} characters; base64 has a multiple of 4", where, text.size());
  }
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0, count = 0;  // the bits that are no byte yet
  for (size_t i = 0; i < text.size() - padding; ++i) {
    const auto digit = base64_digit(text[i]);
    if (!digit) fail(ErrorKind::Malformed, "{} is no base64, at byte {}", where, i);
    bits = bits << 6 | *digit;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
    bits &= (1u << count) - 1;
  }
  if (bits != 0) fail(ErrorKind::Malformed, "{} is no base64: bits are left over at its end", where);
  return bytes;
}

uint32_t little_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

bool ends_key(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t offset_of(uint32_t unit) {
  return unit >> 10 << ((unit >> 9 & 1) != 0 ? 8 : 0);
}

}  // namespace

PrecompiledCharsmap PrecompiledCharsmap::from_base64(std::string_view text, std::string_view where) {
  const std::string all = bytes_of_base64(text, where);
  std::string_view rest = all;
  if (rest.size() < 4)
    fail(ErrorKind::Malformed, "{} has {} bytes; it must begin with a size of 4", where, rest.size());
  const size_t trie_bytes = little_endian(rest);
  rest.remove_prefix(4);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > rest.size()) {
    fail(ErrorKind::Malformed, "{} has a trie of {} bytes; it must be a multiple of 4, from 4 to the {} that follow",
         where, trie_bytes, rest.size());
  }
  PrecompiledCharsmap map;
  map.units_.resize(trie_bytes / 4);
  for (size_t i = 0; i < map.units_.size(); ++i) map.units_[i] = little_endian(rest.substr(4 * i));
  map.replacements_ = rest.substr(trie_bytes);
  const std::string_view replacements = map.replacements_;
  if (!is_utf8(replacements)) fail(ErrorKind::Malformed, "{} has replacements that are not UTF-8", where);
  for (size_t begin = 0; begin < replacements.size();) {
    const size_t end = replacements.find('\0', begin);
    if (end == replacements.npos) fail(ErrorKind::Malformed, "{} has a last replacement without a NUL", where);
    if (end - begin > kMostReplacement) {
      fail(ErrorKind::Malformed, "{} has a replacement of {} bytes; at most {} can be used", where, end - begin,
           kMostReplacement);
    }
    begin = end + 1;
  }
  map.check_units(where);
  return map;
}

void PrecompiledCharsmap::check_units(std::string_view where) {
  for (size_t place = 0; place < units_.size(); ++place) {
    if ((units_[place] & kIsValue) != 0) continue;
    const size_t base = place ^ offset_of(units_[place]);
    if (base >= units_.size()) {
      fail(ErrorKind::Malformed, "{} has a trie of {} units, and unit {} points to unit {}", where, units_.size(),
           place, base);
    }
    if (!ends_key(units_[place])) continue;
    const size_t value = units_[base] & ~kIsValue;
    if (value >= replacements_.size()) {
      fail(ErrorKind::Malformed, "{} has replacements of {} bytes, and unit {} of its trie points to byte {}", where,
           replacements_.size(), base, value);
    }
    const char first = replacements_[value];
    if ((static_cast<unsigned char>(first) & 0xC0) == 0x80) {
      fail(ErrorKind::Malformed, "{} has a trie whose unit {} points into a character, to byte {} of the replacements",
           where, base, value);
    }
    drops_text_ |= first == '\0';
  }
}

std::optional<std::string_view> PrecompiledCharsmap::replacement(std::string_view text) const {
  size_t place = offset_of(units_[0]);
  for (const char byte : text) {
    const auto label = static_cast<unsigned char>(byte);
    place ^= label;
    if (label == 0 || place >= units_.size()) return std::nullopt;
    const uint32_t unit = units_[place];
    if ((unit & (kIsValue | 0xFF)) != label) return std::nullopt;
    place ^= offset_of(unit);
    if (ends_key(unit)) return replacements_.data() + (units_[place] & ~kIsValue);
  }
  return std::nullopt;
}

}  // namespace lockstep
