// Stop strings against the definition by search, for every way of cutting a text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "text/text.h"

namespace lockstep {
namespace {

using Strings = std::vector<std::string>;

struct Ended {
  std::string text;
  bool stopped = false;
  friend bool operator==(const Ended&, const Ended&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Ended& ended) {
    return out << "'" << ended.text << "'" << (ended.stopped ? " stopped" : "");
  }
};

// The first byte at which a stop string is complete; of those complete there the longest.
Ended by_definition(const std::string& text, const Strings& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string so_far = text.substr(0, end);
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (so_far.ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {so_far.substr(0, end - longest), true};
  }
  return {text, false};
}

// The most that may be given out after `text`: no longer text can end before it.
size_t certain_bytes(const std::string& text, const Strings& stops) {
  size_t open = 0;
  for (const std::string& stop : stops) {
    for (size_t length = 1; length < stop.size(); ++length) {
      if (text.ends_with(stop.substr(0, length))) open = std::max(open, length);
    }
  }
  return text.size() - open;
}

// cuts: bit i set: a piece ends behind byte i. Checks after each piece that nothing certain is held back.
Ended matched(const std::string& text, const Strings& stops, uint32_t cuts) {
  StopMatcher matcher(stops);
  std::string given;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && (cuts >> i & 1) == 0) continue;
    given += matcher.push(std::string_view(text).substr(begin, i + 1 - begin));
    begin = i + 1;
    if (!matcher.stopped()) {
      EXPECT_EQ(given.size(), certain_bytes(text.substr(0, begin), stops));
    }
  }
  given += matcher.finish();
  EXPECT_EQ(matcher.finish(), "");
  return {given, matcher.stopped()};
}

TEST(StopMatcher, GivesTheSameForEveryCut) {
  std::mt19937 random(1);
  const auto some = [&random](size_t least, size_t most) {
    std::string text(std::uniform_int_distribution<size_t>(least, most)(random), ' ');
    for (char& letter : text) letter = "ab\xC3"[random() % 3];
    return text;
  };
  int stopped = 0, runs = 0;
  for (int round = 0; round < 1000; ++round) {
    const std::string text = some(0, 10);
    Strings stops;
    for (uint32_t count = random() % 4; count > 0; --count) stops.push_back(some(1, 5));
    const Ended expected = by_definition(text, stops);
    stopped += expected.stopped;
    for (uint32_t cuts = 0; cuts < (1U << (text.empty() ? 0 : text.size() - 1)); ++cuts, ++runs) {
      ASSERT_EQ(matched(text, stops, cuts), expected) << text << " cut by " << cuts;
    }
  }
  EXPECT_GT(stopped, 200);
  EXPECT_LT(stopped, 800);
  EXPECT_GT(runs, 10000);
}

TEST(StopMatcher, KnowsStopsThatOverlap) {
  EXPECT_EQ(matched("aaab", {"aab"}, ~0U), (Ended{"a", true}));
  EXPECT_EQ(matched("xabcd", {"abcd", "bc"}, ~0U), (Ended{"xa", true}));  // complete first, though begun later
  EXPECT_EQ(matched("xabcd", {"bcd", "abcd"}, ~0U), (Ended{"x", true}));  // the longest of those complete
  EXPECT_EQ(matched("xabce", {"abcd"}, ~0U), (Ended{"xabce", false}));    // held back and given out again
  EXPECT_EQ(matched("ababac", {"abac", "abab"}, 0), (Ended{"", true}));   // in one piece
  EXPECT_EQ(matched(std::string("a\0b", 3), {std::string("\0", 1)}, 0), (Ended{"a", true}));
  EXPECT_EQ(matched("abc", {}, ~0U), (Ended{"abc", false}));
  EXPECT_EQ(matched("abab", {"ab", "ab"}, ~0U), (Ended{"", true}));
}

TEST(StopMatcher, GivesNothingAfterTheEnd) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.push("ab st"), "ab ");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.push("op cd"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("ef stop"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, RefusesAnEmptyStop) {
  try {
    StopMatcher matcher({"a", ""});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), testing::HasSubstr("empty"));
  }
}

}  // namespace
}  // namespace lockstep
