// Patterns against what `tokenizers` 0.23.3 makes of them: normalizers.Replace(Regex(pattern),
// "|").normalize_str(text).
#include "text/pattern.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/quoted.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

struct Reading {
  const char *name, *pattern, *text, *replaced;
};

class PatternIsReadAs : public testing::TestWithParam<Reading> {};

INSTANTIATE_TEST_SUITE_P(
    Pattern, PatternIsReadAs,
    testing::Values(Reading{"Scripts", R"(\p{Han}+)", "你好、世界。「漢字」", "|、|。「|」"},
                    Reading{"ScriptNegated", R"([\p{^Han}]+)", "你好、世界。", "你好|世界|"},
                    Reading{"ScriptKana", R"(\p{Katakana}+|\P{Hiragana})", "カナーか、", "||か|"},
                    Reading{"PropertyIsNoScript", R"(\p{Lu}+|\p{Alphabetic})", "aAB1", "||1"},
                    Reading{"Words", R"(\w+)", "x² m³ ¹ ¼½¾ é ª", "| | | | | |"},
                    Reading{"WordsInClass", R"([\w]+)", "x² ¼é", "|² ¼|"}, Reading{"NoWords", R"(\W)", "a²-¼", "a²|¼"},
                    Reading{"Boundaries", R"(\bx)", "²x -x", "²x -|"},
                    Reading{"NoBoundaries", R"(\Bx)", "²x -x", "²| -x"},
                    Reading{"UpToTwo", R"(a{,2})", "aaaab", "||b|"}, Reading{"UpToTwoLazy", R"(\d{,2}?x)", "12x", "|"},
                    Reading{"NoInterval", R"(a{,}|b{|{x})", "a{,}b{{x}", "|||"},
                    Reading{"VerticalTab", R"(\v|[\v])", "a\n\v\f\u2028", "a\n|\f\u2028"},
                    Reading{"CodePoints", R"(\x41|\x{e9}|\u00e8|[\u0061-c])", "AéèbÀ", "||||À"},
                    Reading{"EscapedBeyondAscii", R"(\—+)", "a——b", "a|b"},
                    Reading{"Hexadecimal", R"(\h+)", "fFgG 09", "|gG |"},
                    Reading{"SpaceInClass", R"([-\s]+)", "a - \u3000b", "a|b"},
                    Reading{"FlagOfAll", R"((?i)a|k)", "aAkK\u212Ab", "|||||b"},
                    Reading{"FlagOfAlternatives", R"(a|(?i)b|c)", "aAbBcC", "|A||||"},
                    Reading{"FlagOfGroup", R"((?i:'s|'LL)s?)", "'S 'llS", "| |S"},
                    Reading{"FlagTakenBack", R"((?i)a(?-i:b))", "ABAb", "AB|"},
                    Reading{"DotAll", R"((?m:a.)|b.)", "a\nb\n", "|b\n"},
                    Reading{"IgnoredCaseOfProperty", R"((?i)\p{L}+)", "aÀ1", "|1"},
                    Reading{"IgnoredCaseOfQuote", R"((?i:[’']s))", "’S's", "||"},
                    Reading{"Anchors", R"(^.|.$|\A.|.\z|.\Z)", "ab\ncd\n", "||\n||\n"},
                    Reading{"Empty", R"(x*)", "axxb", "|a|b|"}, Reading{"EmptyText", R"(x*|^)", "", ""}),
    [](const auto& test) { return test.param.name; });

TEST_P(PatternIsReadAs, InHuggingFace) {
  const std::string_view text = GetParam().text;
  std::vector<Pattern::Match> matches;
  Pattern::regex(GetParam().pattern, "p").find(text, matches);
  std::string replaced;
  size_t done = 0;
  for (const auto& match : matches) {
    replaced.append(text.substr(done, match.begin - done)) += '|';
    done = match.end;
  }
  EXPECT_EQ(replaced.append(text.substr(done)), GetParam().replaced);
}

struct Refusal {
  const char *name, *pattern, *found;
};

class PatternIsRefused : public testing::TestWithParam<Refusal> {};

// PCRE2 takes each of them, for something else than Oniguruma does or, in some version, may do.
INSTANTIATE_TEST_SUITE_P(
    Pattern, PatternIsRefused,
    testing::Values(
        Refusal{"PropertyWithoutBrace", R"(\pL)", R"(\p without {)"},
        Refusal{"PropertyWithoutBraceInClass", R"([\PL])", R"(\P without {)"},
        Refusal{"QuotedText", R"(\Qa.\E)", R"(\Q)"}, Refusal{"NoVerticalSpace", R"(\V)", R"(\V)"},
        Refusal{"LineBreak", R"(\R)", R"(\R)"}, Refusal{"GraphemeCluster", R"(\X)", R"(\X)"},
        Refusal{"KeptOut", R"(a\Kb)", R"(\K)"}, Refusal{"Control", R"(\cA)", R"(\c)"},
        Refusal{"Octal", R"(\400)", R"(\4)"}, Refusal{"BackReference", R"((a)\1)", R"(\1)"},
        Refusal{"NoBoundaryInClass", R"([\B])", R"(\B in a class)"},
        Refusal{"NoSpaceInClass", R"([\S])", "a negated class inside a class"},
        Refusal{"HexadecimalWithoutDigits", R"(\x)", R"(\x)"}, Refusal{"ByteOfCharacter", R"(\xC3\xA9)", R"(\xC3)"},
        Refusal{"ShortCodePoint", R"(\u00e)", R"(\u00e)"}, Refusal{"RangeToClass", R"([a-z-\s])", "a range of classes"},
        Refusal{"RangeFromClass", R"([\s-\x{4000}])", "a range of classes"},
        Refusal{"PossessiveInterval", "a{1,2}+", "{n,m}+"}, Refusal{"PossessiveCount", "a{2}+", "{n}+"},
        Refusal{"LazyCount", "a{2}?", "{n}?"}, Refusal{"NamedGroup", "(?<n>a)", "a named group"},
        Refusal{"Conditional", "(a)?(?(1)b|c)", "(?("}, Refusal{"BranchReset", "(?|a|b)", "(?|"},
        Refusal{"Recursion", "a(?R)?", "(?R"}, Refusal{"Comment", "(?#[)a", "(?#"}, Refusal{"Verb", "(*UCP)a", "(*"},
        Refusal{"SpacedFlag", "(?x)a b", "(?x"}, Refusal{"SpacedFlagBehind", "(?ix:a b)", "the flag x"},
        Refusal{"FlagInAlternative", "a(?i)b|c", "flags inside an alternative"},
        Refusal{"IgnoredCaseOfUpper", R"((?i)\p{Lu})", R"((?i) with \p{Lu})"},
        Refusal{"IgnoredCaseOfLower", R"((?i:\P{ lower }))", R"((?i) with \p{ lower })"},
        Refusal{"IgnoredCaseOfPropertyInClass", R"((?i)[\p{L}])", "(?i) with a property in a class"},
        Refusal{"IgnoredCaseOfWordsInClass", R"((?i)[^\w])", "(?i) with a property in a class"},
        Refusal{"IgnoredCaseOfLigature", "(?i:clasSe)", "(?i) with ss"},
        Refusal{"IgnoredCaseOfLigatureInGroups", R"((?i)f(?:\x49))", "(?i) with fi"},
        Refusal{"IgnoredCaseOfLigatureRepeated", "(?i)f{2}", "(?i) with f{n}"},
        Refusal{"IgnoredCaseBeyondAscii", "(?i)\u00DF", "(?i) with U+00DF"},
        Refusal{"IgnoredCaseOfCodePoint", R"((?i)[\x{DF}])", "(?i) with U+00DF"},
        Refusal{"IgnoredCaseOfRange", R"((?i)[\u00A0-\uFFFD])", "(?i) with U+FFFD"}),
    [](const auto& test) { return test.param.name; });

TEST_P(PatternIsRefused, ByName) {
  try {
    Pattern::regex(GetParam().pattern, "file: field");
    ADD_FAILURE() << "it is taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_THAT(error.what(),
                HasSubstr(fmt::format("file: field is the pattern {}, which has {}; lockstep cannot read that",
                                      in_quotes(GetParam().pattern), GetParam().found)));
  }
}

}  // namespace
}  // namespace lockstep
