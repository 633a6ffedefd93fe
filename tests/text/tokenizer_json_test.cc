// Tokenizers of every kind against what Hugging Face `tokenizers` gave for the same tokenizer.json (tests/oracle/
// make_tokenizer_json_fixtures.py), and what the files beside it say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/utf8.h"
#include "text/text.h"
#include "text/unicode.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

json fixture(const std::string& name) {
  std::ifstream stream(LOCKSTEP_FIXTURES "/text/json/" + name + ".json");
  return json::parse(stream);
}

std::unique_ptr<Tokenizer> tokenizer(const json& definition) {
  const std::string text = definition.dump();
  TokenizerFiles files;
  files.tokenizer = {"tokenizer.json", text};
  return Tokenizer::from_files(files);
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool show_special) {
  StreamDecoder decoder(tokenizer, show_special);
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = decoder.push(id);
    EXPECT_TRUE(is_utf8(piece)) << piece;
    text += piece;
  }
  return text + decoder.finish();
}

std::vector<std::string> every_kind() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_FIXTURES "/text/json")) {
    const std::string name = entry.path().stem().string();
    if (!name.ends_with(".tokenizer")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

class EveryKind : public testing::TestWithParam<std::string> {
 protected:
  const json fixture_ = fixture(GetParam());
  const std::unique_ptr<Tokenizer> tokenizer_ = tokenizer(fixture(GetParam() + ".tokenizer"));
};

INSTANTIATE_TEST_SUITE_P(TokenizerJson, EveryKind, testing::ValuesIn(every_kind()),
                         [](const auto& test) { return test.param; });

TEST_P(EveryKind, EncodesAsHuggingFace) {
  for (const auto& example : fixture_.at("encode")) {
    const std::string text = example.at("text");
    const auto ids = tokenizer_->encode(text, SpecialTokens::Parse);
    EXPECT_EQ(ids, example.at("parse")) << text;
    std::vector<TokenId> prompt(tokenizer_->prefix().begin(), tokenizer_->prefix().end());
    prompt.insert(prompt.end(), ids.begin(), ids.end());
    prompt.insert(prompt.end(), tokenizer_->suffix().begin(), tokenizer_->suffix().end());
    EXPECT_EQ(prompt, example.at("prompt")) << text;
  }
}

TEST_P(EveryKind, TakesSpecialTokensAsText) {
  for (const auto& example : fixture_.at("encode")) {
    const std::string text = example.at("text");
    const auto ids = tokenizer_->encode(text, SpecialTokens::AsText);
    if (!example.at("as_text").is_null()) {
      EXPECT_EQ(ids, example.at("as_text")) << text;
      continue;
    }
    for (const TokenId id : ids) {
      EXPECT_TRUE(!tokenizer_->is_special(id) || tokenizer_->piece(id).find("unk") != std::string::npos ||
                  tokenizer_->piece(id).find("UNK") != std::string::npos)
          << text << " has " << id;
    }
  }
}

TEST_P(EveryKind, DecodesAsHuggingFace) {
  for (const auto& example : fixture_.at("encode")) {
    EXPECT_EQ(streamed(*tokenizer_, example.at("parse"), true), example.at("shown")) << example.at("parse");
  }
  for (const auto& example : fixture_.at("decode")) {
    for (const bool show : {true, false}) {
      const std::string expected = example.at(show ? "shown" : "hidden");
      EXPECT_EQ(streamed(*tokenizer_, example.at("ids"), show), expected) << example.at("ids");
      EXPECT_EQ(with_replacement_characters(tokenizer_->decode(example.at("ids").get<std::vector<TokenId>>(), show)),
                expected);
    }
  }
}

// Any bytes give tokens, which a stream gives back as the whole does.
TEST_P(EveryKind, TakesAnyBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string bytes(random() % 60, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(random() % 3 == 0 ? random() % 256 : " \n<ae\xE2\x96\x81"[random() % 8]);
    for (const auto special : {SpecialTokens::AsText, SpecialTokens::Parse}) {
      const auto [ids, lost] = tokenizer_->encode_and_check(bytes, special);
      if (!lost) {
        EXPECT_LE(bytes.size() / tokenizer_->most_bytes_per_token(), ids.size());
      }
      EXPECT_EQ(streamed(*tokenizer_, ids, true), with_replacement_characters(tokenizer_->decode(ids, true)));
    }
  }
}

// 100 kB without a space: a quadratic step anywhere would take minutes.
TEST_P(EveryKind, TakesLongWords) {
  for (const std::string_view unit : {"a", "ab", "\n", "7", "=", "\u4E00", "e\u0301\u0316", "\u2581", "<"}) {
    std::string text;
    while (text.size() < 100'000) text += unit;
    const auto ids = tokenizer_->encode(text, SpecialTokens::AsText);
    EXPECT_EQ(streamed(*tokenizer_, ids, true), with_replacement_characters(tokenizer_->decode(ids, true)));
  }
}

// Of all characters: which have a script, and which have the same.
TEST(Scripts, AreThoseOfHuggingFace) {
  std::ifstream stream(LOCKSTEP_FIXTURES "/text/scripts.json");
  const auto ranges = json::parse(stream).get<std::vector<std::pair<char32_t, int>>>();
  std::map<int, int32_t> scripts;
  std::map<int32_t, int> numbers;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto [begin, number] = ranges[i];
    const char32_t end = i + 1 < ranges.size() ? ranges[i + 1].first : 0x110000;
    for (char32_t c = begin; c < end; ++c) {
      const auto script = script_of(c);
      ASSERT_EQ(script.has_value(), number != 0) << static_cast<uint32_t>(c);
      if (!script) continue;
      ASSERT_EQ(scripts.emplace(number, *script).first->second, *script) << static_cast<uint32_t>(c);
      ASSERT_EQ(numbers.emplace(*script, number).first->second, number) << static_cast<uint32_t>(c);
    }
  }
  EXPECT_EQ(numbers.size(), 135u);
}

// ---- the files beside ----

json small() {
  return json::parse(R"({
    "added_tokens": [{"id": 4, "content": "<s>", "special": true}, {"id": 5, "content": "<|im_end|>", "special": true},
                     {"id": 6, "content": "</s>", "special": true}],
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3}, "merges": ["a b"]}
  })");
}

struct Beside {
  std::string config, special_tokens;
  std::vector<int64_t> end_ids;
};

std::unique_ptr<Tokenizer> with(const Beside& beside, const json& definition = small()) {
  const std::string text = definition.dump();
  return Tokenizer::from_files({{"tokenizer.json", text},
                                {"tokenizer_config.json", beside.config},
                                {"special_tokens_map.json", beside.special_tokens},
                                beside.end_ids});
}

TEST(TokenizerJson, EndsAtWhatTheFilesSay) {
  EXPECT_THAT(with({})->stop_tokens().size(), 1u);  // <|im_end|>, whose text is known
  const auto all = with({R"({"eos_token": "</s>"})", "", {0, 6, 99}});
  EXPECT_THAT(std::vector<TokenId>(all->stop_tokens().begin(), all->stop_tokens().end()), ElementsAre(6, 0, 5));
}

TEST(TokenizerJson, NamesSpecialTokens) {
  const auto named = with({R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>", "pad_token": null,
                               "extra_special_tokens": {"boi_token": "<i>"}, "model_max_length": 1})",
                           R"({"eos_token": "other", "unk_token": "c"})",
                           {}});
  EXPECT_THAT(named->named_tokens(), ElementsAre(testing::Pair("boi_token", "<i>"), testing::Pair("bos_token", "<s>"),
                                                 testing::Pair("eos_token", "</s>"), testing::Pair("unk_token", "c")));
  EXPECT_EQ(named->bos(), 4);
}

TEST(TokenizerJson, AddBosTokenOverrulesThePostProcessor) {
  json definition = small();
  const auto prefix = [&](const std::string& config) {
    const auto tokenizer = with({config, "", {}}, definition);
    return std::vector<TokenId>(tokenizer->prefix().begin(), tokenizer->prefix().end());
  };
  EXPECT_THAT(prefix(R"({"bos_token": "<s>", "add_bos_token": true})"), ElementsAre(4));
  EXPECT_THAT(prefix(R"({"bos_token": "<s>"})"), IsEmpty());
  EXPECT_THAT(prefix(R"({"add_bos_token": true})"), IsEmpty());
  definition["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"<s>", 4}}, {"sep", {"</s>", 6}}};
  EXPECT_THAT(prefix(R"({"bos_token": "<s>", "add_bos_token": true})"), ElementsAre(4));
  EXPECT_THAT(prefix(R"({"bos_token": "<s>", "add_bos_token": false})"), IsEmpty());
  EXPECT_THAT(prefix(R"({"bos_token": "<s>"})"), ElementsAre(4));
}

TEST(TokenizerJson, MergesMayComeBeforeTheVocabulary) {
  const std::string text = R"({"model": {"merges": [["a", "b"]], "vocab": {"ab": 0, "a": 1, "b": 2}, "type": "BPE"}})";
  TokenizerFiles files;
  files.tokenizer = {"tokenizer.json", text};
  EXPECT_THAT(Tokenizer::from_files(files)->encode("ab", SpecialTokens::AsText), ElementsAre(0));
}

TEST(TokenizerJson, IdsMayHaveHoles) {
  json definition = small();
  definition["model"]["vocab"]["c"] = 1000;
  const auto tokenizer = with({}, definition);
  EXPECT_EQ(tokenizer->vocab_size(), 1001);
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{0, 500, 1000}, true), "ac");
}

// The ids are those of `tokenizers` 0.23.3 for the same definition.
TEST(TokenizerJson, AddedTokensInsideWhiteSpaceThatOneTook) {
  json definition = small();
  definition["model"] = {
      {"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {" ", 2}, {"\n", 3}, {"\t", 4}}}, {"merges", json::array()}};
  definition["added_tokens"] = json::array();
  const auto add = [&](TokenId id, const char* text, bool left, bool right) {
    definition["added_tokens"].push_back({{"id", id},
                                          {"content", text},
                                          {"single_word", false},
                                          {"lstrip", left},
                                          {"rstrip", right},
                                          {"normalized", false},
                                          {"special", false}});
  };
  add(3, "\n", false, true);
  add(4, "\t", true, true);
  add(5, "b ", true, false);
  const auto tokenizer = with({}, definition);
  const auto ids = [&](std::string_view text) { return tokenizer->encode(text, SpecialTokens::Parse); };
  EXPECT_THAT(ids("a\n\nb"), ElementsAre(0, 3, 3, 1));
  EXPECT_THAT(ids("a\n \nb"), ElementsAre(0, 3, 3, 1));
  EXPECT_THAT(ids("\n \n \n"), ElementsAre(3, 3, 3));
  EXPECT_THAT(ids("a\n\t"), ElementsAre(0, 3));
  EXPECT_THAT(ids("a\t\t"), ElementsAre(0, 4));
  EXPECT_THAT(ids("\n b b a"), ElementsAre(3, 5, 5, 0));
  EXPECT_THAT(ids("\n\t \n a"), ElementsAre(3, 3, 0));
  EXPECT_THAT(ids("a \n \t b"), ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(ids("\t\n\t\n"), ElementsAre(4, 3, 3));
  // White space is looked at once, however many tokens stand in it.
  EXPECT_EQ(ids(std::string(1'000'000, '\n')).size(), 1'000'000u);
  EXPECT_EQ(ids(std::string(1'000'000, '\t')).size(), 1u);
}

// Stripping at the right end needs to know where the end is.
TEST(TokenizerJson, StreamsStripAtTheEnd) {
  json definition = small();
  definition["decoder"] = json::parse(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
    {"type": "Strip", "content": "b", "start": 1, "stop": 2}, {"type": "Replace", "pattern": {"String": "ac"}, "content": "-"}]})");
  const auto tokenizer = with({}, definition);
  StreamDecoder decoder(*tokenizer);
  std::vector<std::string> pieces;
  for (const TokenId id : {1, 1, 1, 0, 3, 1, 0, 1, 1, 1}) pieces.push_back(decoder.push(id));
  pieces.push_back(decoder.finish());
  EXPECT_THAT(pieces, ElementsAre("", "", "", "bb", "-", "", "b", "", "", "ab", ""));
}

}  // namespace
}  // namespace lockstep
