// What a precompiled_charsmap may not say, what a trie that lies leads to, and what both cost. That a table is read as
// Hugging Face does it is tokenizer_json_test.cc's.
#include "text/precompiled_charsmap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/text.h"

namespace lockstep {
namespace {

using nlohmann::json;

constexpr uint32_t kEndsKey = 1 << 8;

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = i; k < i + 3; ++k) bits = bits << 8 | (k < bytes.size() ? static_cast<uint8_t>(bytes[k]) : 0);
    const size_t digits = std::min<size_t>(bytes.size() - i, 3) + 1;
    for (size_t k = 0; k < 4; ++k) text += k < digits ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string number(size_t value) {
  std::string bytes;
  for (size_t i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string table(const std::vector<uint32_t>& units, std::string_view replacements) {
  std::string bytes = number(4 * units.size());
  for (const uint32_t unit : units) bytes += number(unit);
  return base64(bytes.append(replacements));
}

uint32_t unit(uint32_t offset, char label = 0) {
  return offset << 10 | static_cast<uint8_t>(label);
}

// The root's children are where their labels say; 'a' is one, whose value is at `value`.
std::vector<uint32_t> trie_of_a(uint32_t place_of_value, uint32_t value) {
  std::vector<uint32_t> units(256);
  units['a'] = unit('a' ^ place_of_value, 'a') | kEndsKey;
  units[place_of_value] = value | 1u << 31;
  return units;
}

std::unique_ptr<Tokenizer> tokenizer(const json& charsmap) {
  const json definition = {
      {"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", charsmap}}},
      {"decoder", {{"type", "Fuse"}}},
      {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"\u0301", 2}}}, {"merges", json::array()}}}};
  const std::string text = definition.dump();
  TokenizerFiles files;
  files.tokenizer = {"tokenizer.json", text};
  return Tokenizer::from_files(files);
}

struct Refusal {
  const char* name;
  json charsmap;
  std::string message;
};

class RefusedCharsmap : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedCharsmap, WithAMessageThatNamesIt) {
  try {
    tokenizer(GetParam().charsmap);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Malformed);
    EXPECT_THAT(error.what(),
                testing::StartsWith("tokenizer.json: normalizer.precompiled_charsmap " + GetParam().message));
    EXPECT_LT(std::string(error.what()).size(), 300u);
  }
}

const std::vector<Refusal> kRefusals{
    {"Null", nullptr, "is null; it must be a string"},
    {"Number", 7, "is 7; it must be a string"},
    {"Length", "AAAAA", "has 5 characters; base64 has a multiple of 4"},
    {"Digit", "AAAAA AA", "is no base64, at byte 5"},
    {"PaddingInside", "AA==AAAA", "is no base64, at byte 2"},
    {"PaddingAlone", "====", "is no base64, at byte 0"},
    {"BitsLeft", "AAAAAAD=", "is no base64: bits are left over"},
    {"Empty", "", "has 0 bytes; it must begin with a size of 4"},
    {"NoSize", base64("abc"), "has 3 bytes; it must begin with a size of 4"},
    {"NoTrie", base64(number(0) + "abcd"), "has a trie of 0 bytes; it must be a multiple of 4, from 4 to the 4"},
    {"HalfUnit", base64(number(6) + "abcdefgh"), "has a trie of 6 bytes; it must be a multiple of 4"},
    {"Short", base64(number(12) + "abcdefgh"), "has a trie of 12 bytes; it must be a multiple of 4, from 4 to the 8"},
    {"Huge", base64(number(0xFFFFFFFC) + "abcdefgh"), "has a trie of 4294967292 bytes"},
    {"NoUtf8", table(trie_of_a(1, 0), std::string_view("a\xFF\0", 3)), "has replacements that are not UTF-8"},
    {"NoNul", table(trie_of_a(1, 0), "abc"), "has a last replacement without a NUL"},
    {"Long", table(trie_of_a(1, 0), std::string(1025, 'b') + '\0'), "has a replacement of 1025 bytes"},
    {"PointsOutside", table({unit(4)}, std::string_view("b\0", 2)),
     "has a trie of 1 units, and unit 0 points to unit 4"},
    {"PointsFarOutside", table({0, (1u << 31) - 1}, std::string_view("b\0", 2)),
     "has a trie of 2 units, and unit 1 points to unit 536870657"},
    {"ValueOutside", table(trie_of_a(1, 2), std::string_view("b\0", 2)),
     "has replacements of 2 bytes, and unit 1 of its trie points to byte 2"},
    {"NoReplacements", table(trie_of_a(1, 0), ""), "has replacements of 0 bytes, and unit 1 of its trie points to"},
    {"ValueInCharacter", table(trie_of_a(1, 1), std::string_view("\xC3\xA9\0", 3)),
     "has a trie whose unit 1 points into a character, to byte 1"},
};

INSTANTIATE_TEST_SUITE_P(PrecompiledCharsmap, RefusedCharsmap, testing::ValuesIn(kRefusals),
                         [](const auto& test) { return std::string(test.param.name); });

std::string normalized(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.decode(tokenizer.encode(text, SpecialTokens::AsText), true);
}

TEST(HostileCharsmap, ValuesAtTheEnds) {
  EXPECT_EQ(normalized(*tokenizer(table(trie_of_a(1, 0), std::string_view("bb\0", 3))), "aba"), "bbbbb");
  EXPECT_EQ(normalized(*tokenizer(table(trie_of_a(255, 2), std::string_view("bb\0", 3))), "aba"), "b");
  EXPECT_EQ(normalized(*tokenizer(table({0}, "")), "aba"), "aba");
}

// Children beyond the trie's end, values and the root where children are looked for: no keys.
TEST(HostileCharsmap, StepsThatLeadNowhere) {
  std::vector<uint32_t> units = trie_of_a(1, 0);
  units.resize('a' + 1);
  EXPECT_EQ(normalized(*tokenizer(table(units, std::string_view("b\0", 2))), "ab\u0301"), "bb\u0301");
  units = trie_of_a('b', 0);
  EXPECT_EQ(normalized(*tokenizer(table(units, std::string_view("b\0", 2))), "ab"), "bb");
  units = trie_of_a(1, 0);
  units[0] = ~0u;
  EXPECT_EQ(normalized(*tokenizer(table(units, std::string_view("b\0", 2))), "ab"), "ab");
}

// A node that is its own child: every key is one letter longer, and none ends.
TEST(HostileCharsmap, Cycles) {
  std::vector<uint32_t> units(256);
  units['a'] = unit('a', 'a');
  const std::string text(1'000'000, 'a');
  EXPECT_EQ(normalized(*tokenizer(table(units, "")), text), text);
  units[0x0C] = unit(0x0C ^ 1, '\x0C');
  const auto map = PrecompiledCharsmap::from_base64(table(units, ""), "it");
  EXPECT_EQ(map.replacement(text), std::nullopt);
}

// Two million of everything.
TEST(HostileCharsmap, IsReadAndUsedInLinearTime) {
  constexpr size_t kMany = 2'000'000;
  std::vector<uint32_t> units = trie_of_a(1, 0);
  units.resize(kMany, unit('a' ^ 1, 'a') | kEndsKey);
  for (size_t i = 256; i < kMany; ++i) units[i] = unit(static_cast<uint32_t>(i) ^ 1, 'a') | kEndsKey;
  const auto many = tokenizer(table(units, std::string(1024, 'b') + std::string(kMany, '\0')));
  EXPECT_EQ(normalized(*many, std::string(1000, 'a')).size(), 1'024'000u);

  const auto drops = tokenizer(table(trie_of_a(1, 0), std::string_view("\0", 1)));
  EXPECT_EQ(normalized(*drops, std::string(kMany, 'a')), "");
  std::string cluster = "a";  // one of 4 MB
  for (size_t i = 0; i < kMany; ++i) cluster += "\u0301";
  EXPECT_EQ(normalized(*drops, cluster), cluster.substr(1));
  std::string flags;
  for (size_t i = 0; i < kMany; ++i) flags += "\U0001F1EB";
  EXPECT_EQ(normalized(*drops, flags), "");
}

}  // namespace
}  // namespace lockstep
