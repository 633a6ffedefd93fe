// The table of well-formed UTF-8 (Unicode 3.9, table 3-7) and nothing else.
#include "base/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace lockstep {
namespace {

// A character is a lead byte, one second byte of a range that depends on the lead, and further bytes of 80..BF.
struct LeadRule {
  uint8_t first, last;  // lead bytes
  uint8_t second_min, second_max;
  uint8_t length;  // bytes of the whole character
};
constexpr std::array<LeadRule, 8> kLeads{{
    {0xC2, 0xDF, 0x80, 0xBF, 2},
    {0xE0, 0xE0, 0xA0, 0xBF, 3},
    {0xE1, 0xEC, 0x80, 0xBF, 3},
    {0xED, 0xED, 0x80, 0x9F, 3},
    {0xEE, 0xEF, 0x80, 0xBF, 3},
    {0xF0, 0xF0, 0x90, 0xBF, 4},
    {0xF1, 0xF3, 0x80, 0xBF, 4},
    {0xF4, 0xF4, 0x80, 0x8F, 4},
}};

}  // namespace

Utf8Step next_utf8(std::string_view bytes) {
  const auto lead = static_cast<uint8_t>(bytes[0]);
  if (lead < 0x80) return {Utf8Kind::Character, 1};
  const auto* const rule = std::ranges::find_if(kLeads, [&](auto& r) { return r.first <= lead && lead <= r.last; });
  if (rule == kLeads.end()) return {Utf8Kind::Invalid, 1};
  for (size_t i = 1; i < rule->length; ++i) {
    if (i == bytes.size()) return {Utf8Kind::Unfinished, i};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t min = i == 1 ? rule->second_min : 0x80;
    const uint8_t max = i == 1 ? rule->second_max : 0xBF;
    if (byte < min || byte > max) return {Utf8Kind::Invalid, i};
  }
  return {Utf8Kind::Character, rule->length};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    if (step.kind != Utf8Kind::Character) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

std::string with_replacement_characters(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const auto [kind, length] = next_utf8(bytes);
    text += kind == Utf8Kind::Character ? bytes.substr(0, length) : "\xEF\xBF\xBD";
    bytes.remove_prefix(length);
  }
  return text;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto tail = [&](int shift) { put(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6)), tail(0);
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12)), tail(6), tail(0);
  } else {
    put(0xF0 | (c >> 18)), tail(12), tail(6), tail(0);
  }
}

char32_t decode_utf8(std::string_view character) {
  constexpr std::array<uint8_t, 5> kLeadBits{0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t c = static_cast<uint8_t>(character[0]) & kLeadBits[character.size()];
  for (const char byte : character.substr(1)) c = (c << 6) | (static_cast<uint8_t>(byte) & 0x3F);
  return c;
}

}  // namespace lockstep
