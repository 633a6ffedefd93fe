// Byte-level BPE against what Hugging Face `tokenizers` gave for the same vocabularies (tests/oracle/
// make_tokenizer_fixtures.py), and what must hold for any bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "text/vocabulary_json.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

nlohmann::json fixture(const std::string& pre) {
  std::ifstream stream(LOCKSTEP_FIXTURES "/text/" + pre + ".json");
  return nlohmann::json::parse(stream);
}

std::unique_ptr<Tokenizer> tokenizer(const nlohmann::json& fixture) {
  return Tokenizer::from_gguf(VocabularyJson(fixture.at("vocabulary")).view());
}

std::string repeated(std::string_view unit, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += unit;
  return text;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool show_special) {
  StreamDecoder decoder(tokenizer, show_special);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

class EveryPreTokenizer : public testing::TestWithParam<const char*> {
 protected:
  const nlohmann::json fixture_ = fixture(GetParam());
  const std::unique_ptr<Tokenizer> tokenizer_ = tokenizer(fixture_);
};

INSTANTIATE_TEST_SUITE_P(Bpe, EveryPreTokenizer, testing::Values("gpt-2", "smollm", "llama-bpe", "qwen2", "tekken"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(EveryPreTokenizer, EncodesAsHuggingFace) {
  for (const auto& example : fixture_.at("encode")) {
    const std::string text = example.at("text");
    EXPECT_EQ(tokenizer_->encode(text, SpecialTokens::Parse), example.at("parse")) << text;
    EXPECT_EQ(tokenizer_->encode(text, SpecialTokens::AsText), example.at("as_text")) << text;
  }
}

TEST_P(EveryPreTokenizer, DecodesAsHuggingFace) {
  for (const auto& example : fixture_.at("encode")) {
    EXPECT_EQ(streamed(*tokenizer_, example.at("parse"), true), example.at("shown"));
  }
  for (const auto& example : fixture_.at("decode")) {
    EXPECT_EQ(streamed(*tokenizer_, example.at("ids"), true), example.at("shown")) << example.at("ids");
    EXPECT_EQ(streamed(*tokenizer_, example.at("ids"), false), example.at("hidden")) << example.at("ids");
  }
}

TEST_P(EveryPreTokenizer, EncodesLongRuns) {
  for (const auto& example : fixture_.at("long")) {
    const std::string unit = example.at("unit");
    std::vector<TokenId> expected;
    for (const auto& run : example.at("runs")) expected.insert(expected.end(), run.at(1).get<size_t>(), run.at(0));
    EXPECT_EQ(tokenizer_->encode(repeated(unit, example.at("count")), SpecialTokens::Parse), expected) << unit;
  }
}

TEST_P(EveryPreTokenizer, StreamsOnlyWholeCharacters) {
  for (const auto& example : fixture_.at("decode")) {
    StreamDecoder decoder(*tokenizer_, true);
    for (const TokenId id : example.at("ids").get<std::vector<TokenId>>()) {
      const std::string text = decoder.push(id);
      EXPECT_NO_THROW(nlohmann::json(text).dump()) << "invalid UTF-8";
    }
  }
}

// Of vocabularies with a token for each byte, and of the same without some of them.
TEST_P(EveryPreTokenizer, KnowsWhatItLoses) {
  VocabularyJson json(fixture_.at("vocabulary"));
  for (const char* gone : {"", "e", "\u00C3"}) {  // as the byte-level alphabet writes 'e' and 0xC3
    json.merges.clear();
    for (std::string& token : json.tokens) {
      if (token == gone) token += "<gone>";
    }
    const auto tokenizer = Tokenizer::from_gguf(json.view());
    for (const auto& example : fixture_.at("encode")) {
      const std::string text = example.at("text");
      for (const auto special : {SpecialTokens::AsText, SpecialTokens::Parse}) {
        const auto [tokens, lost] = tokenizer->encode_and_check(text, special);
        if (!lost) {
          EXPECT_GE(tokens.size() * tokenizer->most_bytes_per_token(), text.size()) << text;
        }
        if (fixture_.at("vocabulary").at("pre") == "qwen2") continue;  // decoding gives NFC, whatever is lost
        EXPECT_EQ(!lost, tokenizer->decode(tokens, true) == text) << text;
        if (lost) {
          EXPECT_EQ(static_cast<uint8_t>(text.at(lost->offset)), lost->byte) << text;
        }
      }
    }
  }
}

TEST(Bpe, GivesBackAnyBytes) {
  const auto gpt2 = tokenizer(fixture("gpt-2"));
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 60, '\0');
    // Mostly bytes that begin or continue characters, so that many are nearly well formed.
    for (char& byte : bytes) byte = static_cast<char>(random() % 4 == 0 ? random() % 256 : 0x80 + random() % 0x78);
    for (const auto special : {SpecialTokens::AsText, SpecialTokens::Parse}) {
      EXPECT_EQ(gpt2->decode(gpt2->encode(bytes, special), true), bytes);
    }
  }
}

TEST(Bpe, EachInvalidByteIsAToken) {
  const auto gpt2 = tokenizer(fixture("gpt-2"));
  const auto ids = gpt2->encode("the\xE2\x82the\xFF", SpecialTokens::AsText);
  const auto the = gpt2->encode("the", SpecialTokens::AsText);
  ASSERT_EQ(ids.size(), 2 * the.size() + 3);
  EXPECT_EQ(gpt2->piece(ids[the.size()]), "\xE2");
  EXPECT_EQ(gpt2->piece(ids[the.size() + 1]), "\x82");
  EXPECT_EQ(gpt2->piece(ids.back()), "\xFF");
}

// A letter followed by marks in the wrong order is canonically equivalent to the same marks in the right one. The run
// is long enough for a quadratic normaliser to need minutes.
TEST(Bpe, NormalisesLongRunsOfMarks) {
  const auto qwen2 = tokenizer(fixture("qwen2"));
  constexpr size_t kPairs = 400'000;
  const std::string above = "\xCC\x95", below = "\xCC\x96";  // U+0315, class 232; U+0316, class 220
  const auto mixed = qwen2->encode("x" + repeated(above + below, kPairs), SpecialTokens::AsText);
  EXPECT_EQ(mixed, qwen2->encode("x" + repeated(below, kPairs) + repeated(above, kPairs), SpecialTokens::AsText));
  EXPECT_EQ(qwen2->decode(mixed, true), "x" + repeated(below, kPairs) + repeated(above, kPairs));
}

// A special token that almost matches at every position.
TEST(Bpe, FindsTheLongestSpecialTokens) {
  VocabularyJson vocabulary(fixture("gpt-2").at("vocabulary"));
  const std::string letters(1023, 'a');
  vocabulary.tokens.push_back(letters + "b");
  vocabulary.types.push_back(3);
  const auto id = static_cast<TokenId>(vocabulary.tokens.size() - 1);
  const auto huge = Tokenizer::from_gguf(vocabulary.view());
  const auto ids = huge->encode(letters + letters + letters + "b", SpecialTokens::Parse);
  EXPECT_EQ(ids.back(), id);
  EXPECT_EQ(huge->decode(ids, true), letters + letters + letters + "b");
}

TEST(Bpe, ControlTokensOfUsersAreText) {
  const auto gpt2 = tokenizer(fixture("gpt-2"));
  const auto text = gpt2->encode("<|im_start|>", SpecialTokens::AsText);
  EXPECT_GT(text.size(), 1u);
  for (const TokenId id : text) EXPECT_FALSE(gpt2->is_special(id));
  const auto parsed = gpt2->encode("<|im_start|>", SpecialTokens::Parse);
  ASSERT_EQ(parsed.size(), 1u);
  EXPECT_TRUE(gpt2->is_special(parsed[0]));
  EXPECT_EQ(gpt2->decode(parsed, true), "<|im_start|>");
  EXPECT_EQ(gpt2->decode(parsed, false), "");
}

TEST(Bpe, NamesIdsOutsideTheVocabulary) {
  const auto gpt2 = tokenizer(fixture("gpt-2"));
  const auto size = static_cast<TokenId>(gpt2->vocab_size());
  for (const TokenId id : {-1, size}) {
    try {
      gpt2->piece(id);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      EXPECT_THAT(error.what(),
                  HasSubstr(fmt::format("token {} is outside the vocabulary: ids are 0 to {}", id, size - 1)));
    }
    EXPECT_THROW(gpt2->decode({&id, 1}, true), Error);
    EXPECT_THROW(gpt2->is_special(id), Error);
  }
}

TEST(Bpe, EmptyIsNothing) {
  const auto gpt2 = tokenizer(fixture("gpt-2"));
  EXPECT_TRUE(gpt2->encode("", SpecialTokens::Parse).empty());
  EXPECT_EQ(gpt2->decode({}, true), "");
  EXPECT_EQ(StreamDecoder(*gpt2).finish(), "");
}

// Expected values are what Python's bytes.decode("utf-8", "replace") gives.
TEST(StreamDecoder, RepairsByMaximalSubparts) {
  const auto gpt2 = tokenizer(fixture("gpt-2"));
  const std::string r = "\xEF\xBF\xBD";
  const std::vector<std::pair<std::string, std::string>> examples{
      {"\xE2\x82", r},
      {"\xE2\x82x", r + "x"},
      {"\xE2\xE2\x82\xAC", r + "\xE2\x82\xAC"},
      {"\xF0\x9F\x98", r},
      {"\xF0\x9F\x98\xFF", r + r},
      {"\xED\xA0\x80", r + r + r},
      {"\xC0\xAF", r + r},
      {"\xE0\x80\x80", r + r + r},
      {"\xF4\x90\x80\x80", r + r + r + r},
      {"\x80\x80", r + r},
      {"\xF1\x80\xC2\x41", r + r + "A"},
  };
  for (const auto& [bytes, expected] : examples) {
    EXPECT_EQ(streamed(*gpt2, gpt2->encode(bytes, SpecialTokens::AsText), true), expected);
  }
}

TEST(StreamDecoder, HoldsBackTheBeginningOfACharacter) {
  const auto gpt2 = tokenizer(fixture("gpt-2"));
  const auto byte = [&](char b) { return gpt2->encode(std::string(1, b), SpecialTokens::AsText).at(0); };
  StreamDecoder decoder(*gpt2);
  EXPECT_EQ(decoder.push(byte('\xF0')), "");
  EXPECT_EQ(decoder.push(byte('\x9F')), "");
  EXPECT_EQ(decoder.push(byte('\x98')), "");
  EXPECT_EQ(decoder.push(byte('\x80')), "\xF0\x9F\x98\x80");
  EXPECT_EQ(decoder.push(byte('\xE2')), "");
  EXPECT_EQ(decoder.push(byte('a')),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(decoder.push(byte('\xE2')), "");
  EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.finish(), "");
}

}  // namespace
}  // namespace lockstep
