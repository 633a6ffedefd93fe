// Text for messages: always one line of shown characters, and bounded.
#include "base/quoted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/utf8.h"

namespace lockstep {
namespace {

TEST(Quoted, LeavesPlainTextAlone) {
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
  std::string german = "Größe 🙂";
  EXPECT_EQ(in_quotes(german), "'Größe 🙂'");
  EXPECT_EQ(one_line("it's a\\b"), "it's a\\b");
}

TEST(Quoted, EscapesWhatWouldBreakTheLine) {
  EXPECT_EQ(one_line("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(one_line(std::string_view("\0\x1b[2J\x7f", 6)), "\\x00\\x1b[2J\\x7f");
  EXPECT_EQ(one_line("\xC2\x85\xE2\x80\xA8\xE2\x80\xAE"), "\\u{0085}\\u{2028}\\u{202e}");  // NEL, LS, RLO
  EXPECT_EQ(one_line("\xFF\xE2\x82x\xC3"), "\\xff\\xe2\\x82x\\xc3");
  EXPECT_EQ(in_quotes("it's \\n"), "'it\\'s \\\\n'");
}

TEST(Quoted, CutsLongTextAtACharacter) {
  EXPECT_EQ(in_quotes(std::string(80, 'x')), "'" + std::string(80, 'x') + "'");
  EXPECT_EQ(in_quotes(std::string(81, 'x')), "'" + std::string(80, 'x') + "...' (81 bytes)");
  EXPECT_EQ(in_quotes(std::string(3'000'000, '\n')).size(), 80 + std::string_view("''... (3000000 bytes)").size());
  for (size_t before = 76; before <= 80; ++before) {
    const std::string cut = in_quotes(std::string(before, 'x') + "🙂🙂");
    EXPECT_TRUE(is_utf8(cut)) << cut;
    EXPECT_THAT(cut, testing::HasSubstr("bytes)"));
  }
}

}  // namespace
}  // namespace lockstep
