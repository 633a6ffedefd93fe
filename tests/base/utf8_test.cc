// UTF-8 against RFC 3629's ABNF: every code point, and what lies just outside.
#include "base/utf8.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// As section 3 of the RFC says it: the bits of the code point in the x places of its table.
std::string rfc3629(char32_t c) {
  const auto low = [c](int shift) { return static_cast<char>(0x80 + (c >> shift) % 0x40); };
  if (c <= 0x7F) return {static_cast<char>(c)};
  if (c <= 0x7FF) return {static_cast<char>(0xC0 + c / 0x40), low(0)};
  if (c <= 0xFFFF) return {static_cast<char>(0xE0 + c / 0x1000), low(6), low(0)};
  return {static_cast<char>(0xF0 + c / 0x40000), low(12), low(6), low(0)};
}

TEST(Utf8, EveryCodePoint) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    const std::string bytes = rfc3629(c);
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    ASSERT_EQ(is_utf8(bytes), !surrogate) << static_cast<uint32_t>(c);
    if (surrogate) continue;
    const Utf8Step step = next_utf8(bytes + "x");
    ASSERT_EQ(step.kind, Utf8Kind::Character);
    ASSERT_EQ(step.length, bytes.size());
    ASSERT_EQ(decode_utf8(bytes), c);
    std::string encoded;
    append_utf8(encoded, c);
    ASSERT_EQ(encoded, bytes);
  }
}

TEST(Utf8, RefusesWhatIsNone) {
  for (const std::string_view bytes :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF8\x88\x80\x80\x80", "\xFE", "\xFF", "\xC3", "\xE2\x82",
        "\xF0\x9F\x98", "\xC3(", "\xE2\x82(", "ab\xFF"}) {
    EXPECT_FALSE(is_utf8(bytes)) << bytes;
  }
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace lockstep
