// Vocabularies with scores, as GGUF files of the kind "llama" hold them, against what Hugging Face `tokenizers` gave
// for the same (tests/oracle/make_tokenizer_fixtures.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "text/vocabulary_json.h"

namespace lockstep {
namespace {

class SentencePiece : public testing::TestWithParam<const char*> {
 protected:
  SentencePiece() {
    std::ifstream stream(LOCKSTEP_FIXTURES "/text/" + std::string(GetParam()) + ".json");
    fixture_ = nlohmann::json::parse(stream);
    tokenizer_ = Tokenizer::from_gguf(VocabularyJson(fixture_.at("vocabulary")).view());
  }
  std::string streamed(const std::vector<TokenId>& ids, bool show_special) const {
    StreamDecoder decoder(*tokenizer_, show_special);
    std::string text;
    for (const TokenId id : ids) text += decoder.push(id);
    return text + decoder.finish();
  }

  nlohmann::json fixture_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

INSTANTIATE_TEST_SUITE_P(Gguf, SentencePiece, testing::Values("sentence_piece", "no_prefix"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(SentencePiece, EncodesAsHuggingFace) {
  for (const auto& example : fixture_.at("encode")) {
    const std::string text = example.at("text");
    EXPECT_EQ(tokenizer_->encode(text, SpecialTokens::Parse), example.at("parse")) << text;
    EXPECT_EQ(tokenizer_->encode(text, SpecialTokens::AsText), example.at("as_text")) << text;
    EXPECT_FALSE(tokenizer_->encode_and_check(text, SpecialTokens::AsText).first_lost);
  }
}

TEST_P(SentencePiece, DecodesAsHuggingFace) {
  for (const auto& example : fixture_.at("encode")) {
    EXPECT_EQ(streamed(example.at("parse"), true), example.at("shown")) << example.at("parse");
  }
  for (const auto& example : fixture_.at("decode")) {
    EXPECT_EQ(streamed(example.at("ids"), true), example.at("shown")) << example.at("ids");
    EXPECT_EQ(streamed(example.at("ids"), false), example.at("hidden")) << example.at("ids");
  }
}

// A run of byte tokens waits for its end, since it is U+FFFD as a whole where it is no UTF-8.
TEST_P(SentencePiece, StreamsRunsOfBytes) {
  const auto byte = [&](int b) { return static_cast<TokenId>(9 + b); };
  StreamDecoder decoder(*tokenizer_);
  EXPECT_EQ(decoder.push(byte(0xE2)), "");
  EXPECT_EQ(decoder.push(byte(0x82)), "");
  EXPECT_EQ(decoder.push(byte(0xAC)), "");
  EXPECT_EQ(decoder.push(byte('a')), "");
  EXPECT_EQ(decoder.finish(), "\u20ACa");
  EXPECT_EQ(decoder.push(byte(0xE2)), "");
  EXPECT_EQ(decoder.push(byte('a')), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD\uFFFD");
  EXPECT_EQ(tokenizer_->piece(byte(0xE2)), "\xE2");
}

}  // namespace
}  // namespace lockstep
