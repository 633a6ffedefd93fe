// Bytes that the vocabulary has no token for, where special tokens that people wrote become text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/text.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// Tokens for bytes of ASCII alone, and a special token whose text has others.
std::unique_ptr<Tokenizer> without_all_bytes(bool normalized) {
  json definition =
      json::parse(R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "merges": [], "vocab": {"a": 0, "b": 1, "<": 2, ">": 3}}})");
  definition["added_tokens"] = {{{"id", 4}, {"content", "<\u00FF>"}, {"special", true}, {"normalized", normalized}}};
  const std::string text = definition.dump();
  TokenizerFiles files;
  files.tokenizer = {"tokenizer.json", text};
  return Tokenizer::from_files(files);
}

class WithoutAllBytes : public testing::TestWithParam<bool> {
 protected:
  const std::unique_ptr<Tokenizer> tokenizer_ = without_all_bytes(GetParam());
};

INSTANTIATE_TEST_SUITE_P(ChatEncoder, WithoutAllBytes, testing::Bool(),
                         [](const auto& test) { return test.param ? "Normalized" : "AsItStands"; });

TEST_P(WithoutAllBytes, LosesTheBytesOfSpecialTokensThatAreText) {
  const std::string text = "<\u00FF>ab<\u00FF>b";
  const auto encode = [&](std::span<const TextRange> written) {
    return tokenizer_->encode_and_check(text, SpecialTokens::Parse, written);
  };
  const Encoded parsed = encode({});
  EXPECT_FALSE(parsed.first_lost);
  EXPECT_THAT(parsed.tokens, ElementsAre(4, 0, 1, 4, 1));
  const std::array second{TextRange{6, 10}};
  const Encoded as_text = encode(second);
  EXPECT_THAT(as_text.tokens, ElementsAre(4, 0, 1, 2, 3, 1));
  ASSERT_TRUE(as_text.first_lost);
  EXPECT_EQ(as_text.first_lost->offset, 7u);
  EXPECT_EQ(as_text.first_lost->byte, 0xC3);
}

TEST_P(WithoutAllBytes, RefusesMessagesThatWouldLoseBytes) {
  const ChatEncoder encoder(*tokenizer_, ChatTemplate("t", "{{ messages[0].content }}<\u00FF>"));
  const auto encode = [&](const char* message) {
    ChatInput input;
    input.messages = {{{"role", "user"}, {"content", message}}};
    return encoder.encode(input).tokens;
  };
  EXPECT_THAT(encode("ab"), ElementsAre(0, 1, 4));
  for (const char* message : {"a\u00FFb", "a<\u00FF>b", "<\u00FF>", "b<\u00FF"}) {
    try {
      encode(message);
      ADD_FAILURE() << message << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
      EXPECT_THAT(error.what(), HasSubstr("t: its prompt has the byte 0xc3, for which the vocabulary has no token"));
    }
  }
}

}  // namespace
}  // namespace lockstep
