// Prompts of awkward sizes, from 0 bytes to 16 MB, and vocabularies whose tokens are as long as they may be: what the
// program refuses costs no memory to speak of, and what the tokenizer takes comes back whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "malformed/folder.h"
#include "malformed/tiny_llama.h"
#include "malformed/whole_program.h"
#include "text/text.h"

namespace lockstep {
namespace {

using ::testing::ExitedWithCode;

constexpr size_t kPromptBytes = size_t{16} << 20;
constexpr size_t kLongestToken = size_t{64} << 10;

std::string repeated(std::string_view unit, size_t bytes) {
  std::string text;
  text.reserve(bytes + unit.size());
  while (text.size() < bytes) text += unit;
  text.resize(bytes);
  return text;
}

// 'a' doubled by merges until a token is as long as one may be.
TinyLlama with_long_tokens() {
  TinyLlama model;
  for (std::string token = "a"; token.size() < kLongestToken; token += token) {
    model.merges.push_back(token + " " + token);
    model.tokens.push_back(token + token);
    model.types.push_back(1);
  }
  model.embeddings = model.tokens.size();
  return model;
}

std::unique_ptr<Tokenizer> tokenizer(const TinyLlama& model, std::string_view pre) {
  const std::vector<std::string_view> tokens(model.tokens.begin(), model.tokens.end());
  const std::vector<std::string_view> merges(model.merges.begin(), model.merges.end());
  const std::vector<int64_t> types(model.types.begin(), model.types.end());
  GgufVocabulary vocabulary;
  vocabulary.file = "test.gguf";
  vocabulary.model = "gpt2";
  vocabulary.pre = pre;
  vocabulary.tokens = tokens;
  vocabulary.merges = merges;
  vocabulary.types = types;
  return Tokenizer::from_gguf(vocabulary);
}

class HostilePrompt : public ::testing::Test {
 protected:
  std::vector<std::string> generate(const TinyLlama& model, std::string_view prompt) const {
    return {"generate",
            "--model",
            folder_.write("model.gguf", model.bytes()).string(),
            "--file",
            folder_.write("prompt.txt", prompt).string(),
            "--max-tokens",
            "1",
            "--quiet"};
  }
  const Folder folder_;
};

TEST_F(HostilePrompt, OfNoByteIsRefused) {
  const auto run = generate(TinyLlama(), "");
  EXPECT_EXIT(run_program(run), ExitedWithCode(2), one_line_saying("the prompt is empty"));
}

TEST_F(HostilePrompt, OfOneByteRuns) {
  for (const char byte : {'a', '\0', '\n', '\x80', '\xC3', '\xFF'}) {
    const auto run = generate(TinyLlama(), std::string_view(&byte, 1));
    EXPECT_EXIT(run_program(run), ExitedWithCode(0), "") << static_cast<int>(byte);
  }
}

TEST_F(HostilePrompt, Of16MegabytesIsRefusedBeforeItIsEncoded) {
  for (const auto& model : {TinyLlama(), with_long_tokens()}) {
    for (const std::string_view unit : {"a", " ", "\n", "7", "\u0301", "\x80", "<|end|>"}) {
      const auto run = generate(model, repeated(unit, kPromptBytes));
      EXPECT_EXIT(run_program(run), ExitedWithCode(1), one_line_saying(" tokens, but ")) << unit;
    }
  }
}

TEST(HostileText, OfOneByteIsOneToken) {
  for (const auto* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2", "tekken"}) {
    const auto tested = tokenizer(TinyLlama(), pre);
    for (int value = 0; value < 256; ++value) {
      const std::string text(1, static_cast<char>(value));
      EXPECT_EQ(tested->encode(text, SpecialTokens::Parse), std::vector<TokenId>{value}) << pre;
    }
  }
}

// Every pattern meets every unit elsewhere (tests/text); here one of each shape is as long as a prompt may be made.
TEST(HostileText, Of16MegabytesComesBackWhole) {
  const std::array<std::pair<const char*, std::string_view>, 5> runs{
      {{"gpt-2", "a"}, {"smollm", " "}, {"llama-bpe", "7"}, {"tekken", "\x80"}, {"qwen2", "\u0301"}}};
  const auto model = with_long_tokens();
  for (const auto& [pre, unit] : runs) {
    const auto tested = tokenizer(model, pre);
    const auto text = repeated(unit, kPromptBytes);
    const auto tokens = tested->encode(text, SpecialTokens::Parse);
    EXPECT_TRUE(tested->decode(tokens, true) == text) << pre << ' ' << unit;
    if (unit == "a") {
      EXPECT_EQ(tokens.size(), kPromptBytes / kLongestToken);
    }
  }
}

}  // namespace
}  // namespace lockstep
