// What the tokenizer.ggml.* keys may say, and the error for each thing they may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/vocabulary_json.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// Eight tokens: a, b, c, ab, abc; and three special ones.
VocabularyJson small() {
  return VocabularyJson(nlohmann::json{
      {"pre", "gpt-2"},
      {"tokens", {"a", "b", "c", "ab", "abc", "<|endoftext|>", "<|im_end|>", "<s>"}},
      {"types", {1, 1, 1, 1, 1, 3, 3, 3}},
      {"merges", {"a b", "ab c"}},
      {"bos", 7},
      {"eos", 6},
  });
}

using Change = std::function<void(VocabularyJson&)>;
struct Refusal {
  const char* name;
  Change change;
  ErrorKind kind;
  std::string message;
};

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, WithAMessageThatNamesIt) {
  VocabularyJson vocabulary = small();
  GetParam().change(vocabulary);
  try {
    Tokenizer::from_gguf(vocabulary.view());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), GetParam().kind);
    EXPECT_THAT(error.what(), testing::StartsWith("test.gguf: "));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
  }
}

const std::vector<Refusal> kRefusals{
    {"Model", [](auto& v) { v.model = "t5"; }, ErrorKind::Unsupported,
     "tokenizer.ggml.model is 't5'; the known ones are gpt2 (byte-level BPE) and llama (SentencePiece BPE)"},
    {"NoScores", [](auto& v) { v.model = "llama"; }, ErrorKind::Malformed,
     "tokenizer.ggml.scores has 0 entries for the 8 of tokenizer.ggml.tokens"},
    {"ScoreNan", [](auto& v) { v.model = "llama", v.scores.assign(8, 0), v.scores[2] = NAN; }, ErrorKind::Malformed,
     "tokenizer.ggml.scores[2] is nan"},
    {"UnknownPre", [](auto& v) { v.pre = "new\nthing"; }, ErrorKind::Unsupported,
     "tokenizer.ggml.pre is 'new\\nthing'; the known ones are gpt-2, llama-bpe, llama-v3, llama3, qwen2, smollm"},
    {"MissingPre", [](auto& v) { v.pre = ""; }, ErrorKind::Unsupported, "tokenizer.ggml.pre is missing"},
    {"DefaultPre", [](auto& v) { v.pre = "default"; }, ErrorKind::Unsupported, "tokenizer.ggml.pre is 'default'"},
    {"NoTokens", [](auto& v) { v.tokens.clear(), v.types.clear(), v.merges.clear(); }, ErrorKind::Malformed,
     "tokenizer.ggml.tokens is empty"},
    {"EmptyToken", [](auto& v) { v.tokens[3] = ""; }, ErrorKind::Malformed, "tokenizer.ggml.tokens[3] is empty"},
    {"DuplicateToken", [](auto& v) { v.tokens[4] = "b"; }, ErrorKind::Malformed,
     "tokenizer.ggml.tokens[4] is 'b', as tokenizer.ggml.tokens[1] is"},
    {"LongDuplicate", [](auto& v) { v.tokens[0] = v.tokens[1] = std::string(1 << 16, '\xFF'); }, ErrorKind::Malformed,
     "\\xff...' (65536 bytes)"},
    {"LongToken", [](auto& v) { v.tokens[2] = std::string((1 << 16) + 1, 'c'); }, ErrorKind::Malformed,
     "tokenizer.ggml.tokens[2] has 65537 bytes; a token has at most 65536"},
    {"LongControlToken", [](auto& v) { v.tokens[7] = std::string(1025, 's'); }, ErrorKind::Malformed,
     "tokenizer.ggml.tokens[7] is a control or user-defined token and has 1025 bytes; such a one has at most 1024"},
    {"LongUnknownToken", [](auto& v) { v.tokens[7] = std::string(1025, 's'), v.types[7] = 2; }, ErrorKind::Malformed,
     "tokenizer.ggml.tokens[7] is a control or user-defined token and has 1025 bytes"},
    {"LongUserDefinedToken", [](auto& v) { v.tokens[7] = std::string(1025, 's'), v.types[7] = 4; },
     ErrorKind::Malformed, "tokenizer.ggml.tokens[7] is a control or user-defined token and has 1025 bytes"},
    {"ManyLongSpecialTokens",
     [](auto& v) {
       for (int i = 0; i < 4096; ++i) v.tokens.push_back(fmt::format("{:01024}", i)), v.types.push_back(4);
     },
     ErrorKind::Malformed, "bytes; all of them together have at most 4194304"},
    {"FewTypes", [](auto& v) { v.types.pop_back(); }, ErrorKind::Malformed,
     "tokenizer.ggml.token_type has 7 entries for the 8 of tokenizer.ggml.tokens"},
    {"ManyTypes", [](auto& v) { v.types.push_back(1); }, ErrorKind::Malformed, "token_type has 9 entries"},
    {"TypeZero", [](auto& v) { v.types[2] = 0; }, ErrorKind::Malformed, "tokenizer.ggml.token_type[2] is 0"},
    {"TypeSeven", [](auto& v) { v.types[2] = 7; }, ErrorKind::Malformed, "tokenizer.ggml.token_type[2] is 7"},
    {"NoByteTokens",
     [](auto& v) {
       v.tokens = {"aa", "bb", "cc"}, v.types.clear(), v.merges.clear(), v.bos = v.eos = 0;
     },
     ErrorKind::Malformed, "no token of a single byte"},
    {"MergeOfOne", [](auto& v) { v.merges[1] = "abc"; }, ErrorKind::Malformed, "tokenizer.ggml.merges[1] is 'abc'"},
    {"MergeOfThree", [](auto& v) { v.merges[1] = "a b c"; }, ErrorKind::Malformed,
     "tokenizer.ggml.merges[1] is 'a b c'"},
    {"MergeNoLeft", [](auto& v) { v.merges[1] = " b"; }, ErrorKind::Malformed, "tokenizer.ggml.merges[1] is ' b'"},
    {"MergeNoRight", [](auto& v) { v.merges[1] = "a "; }, ErrorKind::Malformed, "tokenizer.ggml.merges[1] is 'a '"},
    {"MergeEmpty", [](auto& v) { v.merges[1] = ""; }, ErrorKind::Malformed, "tokenizer.ggml.merges[1] is ''"},
    {"MergeUnknownLeft", [](auto& v) { v.merges[1] = "x b"; }, ErrorKind::Malformed,
     "tokenizer.ggml.merges[1] is 'x b', but 'x' is not in tokenizer.ggml.tokens"},
    {"MergeUnknownRight", [](auto& v) { v.merges[1] = "b x"; }, ErrorKind::Malformed, "but 'x' is not in"},
    {"MergeUnknownResult", [](auto& v) { v.merges[1] = "b c"; }, ErrorKind::Malformed, "but 'bc' is not in"},
    {"MergeTwice", [](auto& v) { v.merges.push_back("a b"); }, ErrorKind::Malformed,
     "tokenizer.ggml.merges[2] is 'a b', which an earlier entry is too"},
    {"MergeIntoLiteralControlToken",
     [](auto& v) {
       v.tokens = {"a", "\u0120", "\u0120a", "x", "y", "z", "u", "w"}, v.types[2] = 3, v.merges = {"\u0120 a"};
     },
     ErrorKind::Malformed, "tokenizer.ggml.tokens[2] stands for other bytes than its two parts [1] and [0]"},
    {"MergeOfLiteralUserDefinedToken",
     [](auto& v) {
       v.tokens = {"a", "\u0120", "\u0120a", "x", "y", "z", "u", "w"}, v.types[1] = 4, v.merges = {"\u0120 a"};
     },
     ErrorKind::Malformed, "tokenizer.ggml.tokens[2] stands for other bytes than its two parts [1] and [0]"},
    {"MergeOutsideTheAlphabet",
     [](auto& v) {
       v.tokens = {"\u65E5", "\u0120", "\u65E5\u0120", "x", "y", "z", "u", "w"}, v.merges = {"\u65E5 \u0120"};
     },
     ErrorKind::Malformed, "tokenizer.ggml.tokens[2] stands for other bytes than its two parts [0] and [1]"},
    {"BosTooLarge", [](auto& v) { v.bos = 8; }, ErrorKind::Malformed,
     "tokenizer.ggml.bos_token_id is 8; ids are 0 to 7"},
    {"EosNegative", [](auto& v) { v.eos = -1; }, ErrorKind::Malformed, "tokenizer.ggml.eos_token_id is -1"},
    {"EosHuge", [](auto& v) { v.eos = int64_t{1} << 32; }, ErrorKind::Malformed, "eos_token_id is 4294967296"},
};

INSTANTIATE_TEST_SUITE_P(Vocabulary, Refused, testing::ValuesIn(kRefusals),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Vocabulary, RefusesTheOtherIds) {
  VocabularyJson json = small();
  for (const auto member : {&GgufVocabulary::unknown, &GgufVocabulary::padding, &GgufVocabulary::end_of_turn}) {
    GgufVocabulary vocabulary = json.view();
    vocabulary.*member = 8;
    EXPECT_THROW(Tokenizer::from_gguf(vocabulary), Error);
    vocabulary.*member = 7;
    EXPECT_NO_THROW(Tokenizer::from_gguf(vocabulary));
  }
}

// A padding token that was an ordinary one, as fine-tunes have them.
TEST(Vocabulary, MergesMayMakeSpecialTokensOfTheSameBytes) {
  VocabularyJson json = small();
  json.types[3] = 3, json.types[4] = 4;  // ab, abc
  const auto tokenizer = Tokenizer::from_gguf(json.view());
  for (const auto special : {SpecialTokens::AsText, SpecialTokens::Parse}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("abcaabb", special), true), "abcaabb");
  }
}

TEST(Vocabulary, MergesInRankOrder) {
  VocabularyJson json = small();
  const auto tokenizer = Tokenizer::from_gguf(json.view());
  EXPECT_THAT(tokenizer->encode("abcab", SpecialTokens::Parse), ElementsAre(4, 3));
  EXPECT_EQ(tokenizer->description(), "byte-level BPE (gpt-2)");
  EXPECT_EQ(tokenizer->vocab_size(), 8);
}

// As in Hugging Face: the letters on both sides of it become neighbours.
TEST(Vocabulary, BytesWithoutATokenLeaveNothing) {
  VocabularyJson json = small();
  const auto tokenizer = Tokenizer::from_gguf(json.view());
  EXPECT_THAT(tokenizer->encode("azb", SpecialTokens::Parse), ElementsAre(3));
  EXPECT_TRUE(tokenizer->encode("z\xFF", SpecialTokens::Parse).empty());
}

std::vector<TokenId> stop_tokens(const GgufVocabulary& vocabulary) {
  const auto tokenizer = Tokenizer::from_gguf(vocabulary);
  return {tokenizer->stop_tokens().begin(), tokenizer->stop_tokens().end()};
}

TEST(Vocabulary, StopTokensAreEosEndOfTurnAndKnownControlTokens) {
  VocabularyJson json = small();
  GgufVocabulary vocabulary = json.view();
  EXPECT_THAT(stop_tokens(vocabulary), UnorderedElementsAre(6, 5));
  vocabulary.end_of_turn = 4;
  EXPECT_THAT(stop_tokens(vocabulary), UnorderedElementsAre(6, 5, 4));
  json.tokens[5] = "<|other|>";
  EXPECT_THAT(stop_tokens(json.view()), UnorderedElementsAre(6));
}

TEST(Vocabulary, AddBosIsTheFilesWordOrTheFamilys) {
  VocabularyJson json = small();
  GgufVocabulary vocabulary = json.view();
  const auto prefix = [&] {
    const auto tokenizer = Tokenizer::from_gguf(vocabulary);
    return std::vector<TokenId>(tokenizer->prefix().begin(), tokenizer->prefix().end());
  };
  EXPECT_THAT(prefix(), ElementsAre());
  EXPECT_EQ(Tokenizer::from_gguf(vocabulary)->bos(), 7);
  vocabulary.pre = "llama-bpe";
  EXPECT_THAT(prefix(), ElementsAre(7));
  vocabulary.add_bos = false;
  EXPECT_THAT(prefix(), ElementsAre());
  vocabulary.add_bos = true;
  vocabulary.bos.reset();
  EXPECT_THROW(Tokenizer::from_gguf(vocabulary), Error);
  vocabulary.add_bos.reset();
  EXPECT_THAT(prefix(), ElementsAre());
}

TEST(Vocabulary, NamesItsSpecialTokens) {
  VocabularyJson json = small();
  const auto tokenizer = Tokenizer::from_gguf(json.view());
  EXPECT_THAT(tokenizer->named_tokens(),
              ElementsAre(testing::Pair("bos_token", "<s>"), testing::Pair("eos_token", "<|im_end|>")));
}

// What ends an answer is special by its text, as in llama.cpp: types are wrong in some files.
TEST(Vocabulary, KnownEndsOfAnswersAreSpecialWhateverTheirType) {
  for (const int64_t type : {1, 4, 5}) {
    VocabularyJson json = small();
    json.types[5] = json.types[6] = type;
    json.eos.reset();
    const auto tokenizer = Tokenizer::from_gguf(json.view());
    EXPECT_THAT(tokenizer->encode("a<|im_end|>", SpecialTokens::Parse), ElementsAre(0, 6)) << type;
    EXPECT_THAT(tokenizer->encode("a<|im_end|>", SpecialTokens::AsText), ElementsAre(0)) << type;
    EXPECT_THAT(tokenizer->stop_tokens(), UnorderedElementsAre(5, 6)) << type;
  }
}

// Without types, the tokens that keys name are special; a single character is not, for 0 may stand for none.
TEST(Vocabulary, TypesMayBeAbsent) {
  for (const auto member : {&GgufVocabulary::bos, &GgufVocabulary::eos, &GgufVocabulary::unknown,
                            &GgufVocabulary::padding, &GgufVocabulary::end_of_turn}) {
    VocabularyJson json = small();
    json.types.clear();
    json.tokens[7] = "<|end|>";
    json.bos.reset(), json.eos.reset();
    GgufVocabulary vocabulary = json.view();
    EXPECT_FALSE(Tokenizer::from_gguf(vocabulary)->is_special(7));
    vocabulary.*member = 7;
    const auto named = Tokenizer::from_gguf(vocabulary);
    EXPECT_TRUE(named->is_special(7));
    EXPECT_THAT(named->encode("a<|end|>", SpecialTokens::Parse), ElementsAre(0, 7));
    EXPECT_THAT(named->encode("a<|end|>", SpecialTokens::AsText), ElementsAre(0));
    vocabulary.*member = 0;
    EXPECT_FALSE(Tokenizer::from_gguf(vocabulary)->is_special(0));
    vocabulary.*member = std::nullopt;
  }
  VocabularyJson json = small();
  json.types.clear();
  json.tokens[7] = std::string(1025, 's');
  EXPECT_THROW(Tokenizer::from_gguf(json.view()), Error);
}

// Names the byte that would be lost, where it would be; special tokens and tokens taken whole need no bytes.
TEST(Vocabulary, TellsTheFirstByteWithoutAToken) {
  VocabularyJson json = small();
  json.tokens[6] = "zz";
  json.types[6] = 1;
  const auto lost = [&](std::string_view text, SpecialTokens special = SpecialTokens::AsText) -> std::pair<int, int> {
    const auto byte = Tokenizer::from_gguf(json.view())->encode_and_check(text, special).first_lost;
    return byte ? std::pair(static_cast<int>(byte->offset), int{byte->byte}) : std::pair(-1, -1);
  };
  const std::pair nothing(-1, -1);
  EXPECT_EQ(lost(""), nothing);
  EXPECT_EQ(lost("abcab"), nothing);
  EXPECT_EQ(lost("abzcx"), std::pair(2, 0x7A));
  EXPECT_EQ(lost("ab\xFF\x80z"), std::pair(2, 0xFF));
  EXPECT_EQ(lost("a\xC3\xA9"), std::pair(1, 0xC3));
  EXPECT_EQ(lost("a<s>b", SpecialTokens::Parse), nothing);
  EXPECT_EQ(lost("a<s>bz", SpecialTokens::Parse), std::pair(5, 0x7A));
  EXPECT_EQ(lost("a<s>b"), std::pair(1, 0x3C));
  EXPECT_EQ(lost("zz"), std::pair(0, 0x7A));
  json.pre = "llama-bpe";  // pieces that are tokens are taken whole
  EXPECT_EQ(lost("zz"), nothing);
  EXPECT_EQ(lost("zza"), std::pair(0, 0x7A));
  json.pre = "qwen2";  // text is normalised first: e and an accent become one letter
  EXPECT_EQ(lost("ae\xCC\x81"), std::pair(1, 0xC3));
  json.tokens[1] = "\u00C3", json.tokens[2] = "\u00A9";  // its two bytes
  json.merges.clear();
  json.tokens[3] = "q", json.tokens[4] = "w";
  EXPECT_EQ(lost("ae\xCC\x81"), nothing);
  EXPECT_EQ(lost("ae"), std::pair(1, 0x65));
}

// A user-defined token is its own text, even where each of its characters would stand for a byte in a normal one.
TEST(Vocabulary, UserDefinedTokensAreNoBytes) {
  VocabularyJson json = small();
  json.pre = "llama-bpe";  // pieces that are tokens are taken whole
  json.tokens = {"\u0100", "a", "\u0100\u0100"}, json.types = {1, 1, 4};
  json.merges.clear(), json.bos = json.eos = std::nullopt;
  const auto tokenizer = Tokenizer::from_gguf(json.view());
  EXPECT_THAT(tokenizer->encode(std::string(2, '\0'), SpecialTokens::AsText), ElementsAre(0, 0));
  EXPECT_THAT(tokenizer->encode("\u0100\u0100", SpecialTokens::AsText), ElementsAre(2));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{2}, false), "\u0100\u0100");
}

TEST(Vocabulary, ATokenStandsForItsBytesAtMost) {
  VocabularyJson json = small();
  EXPECT_EQ(Tokenizer::from_gguf(json.view())->most_bytes_per_token(), std::string("<|endoftext|>").size());
  // NFC makes 2 bytes of these 7: U+1FBE, U+0308, U+0301. Here each of the two is a token.
  json.pre = "qwen2";
  json.tokens = {"a", "\u00CE", "\u0132", "\u00CE\u0132"}, json.types = {1, 1, 1, 1};  // CE, 90, and both
  json.merges = {"\u00CE \u0132"}, json.bos = json.eos = 0;
  const auto tokenizer = Tokenizer::from_gguf(json.view());
  const std::string text = "\u1FBE\u0308\u0301";
  EXPECT_THAT(tokenizer->encode(text, SpecialTokens::AsText), ElementsAre(3));
  EXPECT_FALSE(tokenizer->encode_and_check(text, SpecialTokens::AsText).first_lost.has_value());
  EXPECT_GE(tokenizer->most_bytes_per_token(), text.size());
}

TEST(Vocabulary, TheLargestTokensAreFine) {
  VocabularyJson json = small();
  const std::string huge((1 << 16) - 1, 'a');
  json.tokens[7] = std::string(1024, 's');
  json.tokens.insert(json.tokens.end(), {huge, huge + "b"});
  json.types.insert(json.types.end(), 2, 1);
  json.merges.push_back(huge + " b");
  const auto tokenizer = Tokenizer::from_gguf(json.view());
  EXPECT_EQ(tokenizer->piece(9), huge + "b");
  EXPECT_EQ(tokenizer->encode(huge, SpecialTokens::Parse).size(), huge.size());
}

}  // namespace
}  // namespace lockstep
