// What a tokenizer.json may not say: every refusal is one line that names the file, the field and what was found. And
// what it may say to cost too much.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/text.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json small() {
  return json::parse(R"({
    "version": "1.0",
    "added_tokens": [{"id": 5, "content": "<s>", "special": true, "normalized": false}],
    "normalizer": {"type": "Replace", "pattern": {"String": "x"}, "content": "y"},
    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "c"}, "behavior": "Isolated", "invert": false},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                       "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}},
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, "abc": 4}, "merges": ["a b", ["ab", "c"]]}
  })");
}

std::unique_ptr<Tokenizer> read(const std::string& text) {
  TokenizerFiles files;
  files.tokenizer = {"tokenizer.json", text};
  return Tokenizer::from_files(files);
}

void expect_refused(const std::string& text, ErrorKind kind, const std::string& message) {
  try {
    read(text);
    ADD_FAILURE() << "no error, but expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(error.what(), testing::StartsWith("tokenizer.json: "));
    EXPECT_THAT(error.what(), HasSubstr(message));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    EXPECT_LT(std::string(error.what()).size(), 1000u);
  }
}

struct Refusal {
  const char* name;
  std::function<void(json&)> change;
  ErrorKind kind;
  std::string message;
};

class RefusedJson : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedJson, WithAMessageThatNamesIt) {
  json definition = small();
  read(definition.dump());  // as it is, it can be used
  GetParam().change(definition);
  expect_refused(definition.dump(), GetParam().kind, GetParam().message);
}

void set_unigram(json& t, const char* vocabulary) {
  t["model"] = {{"type", "Unigram"}, {"vocab", json::parse(vocabulary)}, {"unk_id", 0}};
}

void set_word_level(json& t, const json& unknown) {
  t["model"] = {{"type", "WordLevel"}, {"vocab", {{"a", 0}, {"b", 1}}}, {"unk_token", unknown}};
}

void set_length(json& t, const json& length) {
  t["pre_tokenizer"] = {{"type", "FixedLength"}, {"length", length}};
}

const std::vector<Refusal> kRefusals{
    {"Version", [](auto& t) { t["version"] = "2.0"; }, ErrorKind::Unsupported, "version is '2.0', which is not known"},
    {"UnknownMember", [](auto& t) { t["extra"] = 1; }, ErrorKind::Unsupported, "has 'extra', which is not known"},
    {"NoModel", [](auto& t) { t.erase("model"), t["added_tokens"].clear(); }, ErrorKind::Malformed,
     "model.vocab has no"},
    {"ModelType", [](auto& t) { t["model"]["type"] = "CharLevel"; }, ErrorKind::Unsupported,
     "model.type is 'CharLevel', which is not known; the known ones are BPE, Unigram, WordPiece, WordLevel"},
    {"ModelMember", [](auto& t) { t["model"]["new"] = 1; }, ErrorKind::Unsupported, "model has 'new'"},
    {"Dropout", [](auto& t) { t["model"]["dropout"] = 0.1; }, ErrorKind::Unsupported, "model.dropout is 0.1"},
    {"Unknown", [](auto& t) { t["model"]["unk_token"] = "?"; }, ErrorKind::Malformed,
     "model.unk_token is '?', which is not"},
    {"BoolWanted", [](auto& t) { t["model"]["fuse_unk"] = 1; }, ErrorKind::Malformed,
     "model.fuse_unk is 1; it must be true"},
    {"IdNegative", [](auto& t) { t["model"]["vocab"]["a"] = -1; }, ErrorKind::Malformed, "gives 'a' the id -1"},
    {"IdHuge", [](auto& t) { t["model"]["vocab"]["a"] = 1u << 31; }, ErrorKind::Malformed,
     "model.vocab gives 'a' the id"},
    {"IdSparse", [](auto& t) { t["model"]["vocab"]["a"] = 100'000; }, ErrorKind::Malformed,
     "the largest token id is 100000, but there are only 6 tokens"},
    {"IdFraction", [](auto& t) { t["model"]["vocab"]["a"] = 0.5; }, ErrorKind::Malformed, "gives 'a' the id '0.5'"},
    {"IdString", [](auto& t) { t["model"]["vocab"]["a"] = "0"; }, ErrorKind::Malformed, "gives 'a' the id"},
    {"IdTwice", [](auto& t) { t["model"]["vocab"]["b"] = 0; }, ErrorKind::Malformed, "the id 0, which 'a' has too"},
    {"VocabularyEmpty", [](auto& t) { t["model"]["vocab"] = json::object(), t["model"]["merges"] = json::array(); },
     ErrorKind::Malformed, "model.vocab is missing or empty"},
    {"VocabularyNull", [](auto& t) { t["model"]["vocab"] = nullptr; }, ErrorKind::Malformed, "model.vocab is missing"},
    {"VocabularyArray",
     [](auto& t) { t["model"]["vocab"] = json::parse(R"([["a", 1.5]])"), t["model"]["merges"] = json::array(); },
     ErrorKind::Malformed, "model.vocab must be an object for a model of type 'BPE'"},
    {"TokenHuge", [](auto& t) { t["model"]["vocab"][std::string(70'000, 'q')] = 6; }, ErrorKind::Malformed,
     "has a token of 70000 bytes"},
    {"MergesObject", [](auto& t) { t["model"]["merges"] = json::object(); }, ErrorKind::Malformed,
     "model.merges that are no"},
    {"MergeOfOne", [](auto& t) { t["model"]["merges"][0] = "ab"; }, ErrorKind::Malformed,
     "model.merges[0] is 'ab'; a merge is"},
    {"MergeOfThree",
     [](auto& t) {
       t["model"]["merges"][1] = {"a", "b", "c"};
     },
     ErrorKind::Malformed, "model.merges[1] is"},
    {"MergeNumber", [](auto& t) { t["model"]["merges"][1] = 7; }, ErrorKind::Malformed, "model.merges[1] is"},
    {"MergeEmptyPart",
     [](auto& t) {
       t["model"]["merges"][1] = {"a", ""};
     },
     ErrorKind::Malformed, "model.merges[1] is"},
    {"MergePart", [](auto& t) { t["model"]["merges"][1] = "a z"; }, ErrorKind::Malformed,
     "model.merges[1] has 'z', which"},
    {"MergeResult", [](auto& t) { t["model"]["merges"][1] = "b c"; }, ErrorKind::Malformed,
     "model.merges[1] has 'bc', which"},
    {"MergeTwice", [](auto& t) { t["model"]["merges"][1] = "a b"; }, ErrorKind::Malformed,
     "model.merges[1] joins 'a' and 'b', which an earlier entry does too"},
    {"MergeShorterThanPrefix", [](auto& t) { t["model"]["continuing_subword_prefix"] = "##"; }, ErrorKind::Malformed,
     "model.merges[0] has 'b' on its right, which is shorter than continuing_subword_prefix"},
    {"AddedNoArray", [](auto& t) { t["added_tokens"] = json::object(); }, ErrorKind::Malformed,
     "added_tokens that are no array"},
    {"AddedEmpty", [](auto& t) { t["added_tokens"][0]["content"] = ""; }, ErrorKind::Malformed,
     "added_tokens[0].content is empty"},
    {"AddedNoId", [](auto& t) { t["added_tokens"][0].erase("id"); }, ErrorKind::Malformed,
     "added_tokens[0].id is missing"},
    {"AddedHugeId", [](auto& t) { t["added_tokens"][0]["id"] = 1u << 30; }, ErrorKind::Malformed,
     "added_tokens[0].id is 1073741824"},
    {"AddedLong", [](auto& t) { t["added_tokens"][0]["content"] = std::string(1025, 's'); }, ErrorKind::Malformed,
     "added_tokens[0].content has 1025 bytes"},
    {"AddedTaken", [](auto& t) { t["added_tokens"][0]["id"] = 3; }, ErrorKind::Malformed,
     "added_tokens[0] gives '<s>' the id 3, which 'c' has"},
    {"AddedDiffers", [](auto& t) { t["added_tokens"][0]["content"] = "c"; }, ErrorKind::Malformed,
     "added_tokens[0] gives 'c' the id 5, but model.vocab 3"},
    {"AddedMember", [](auto& t) { t["added_tokens"][0]["new"] = 1; }, ErrorKind::Unsupported,
     "added_tokens[0] has 'new'"},
    {"Normalizer",
     [](auto& t) {
       t["normalizer"] = {{"type", "Compiled"}};
     },
     ErrorKind::Unsupported, "normalizer.type is 'Compiled', which is not known; the known ones are NFC"},
    {"NmtMember",
     [](auto& t) {
       t["normalizer"] = {{"type", "Nmt"}, {"form", "NFKC"}};
     },
     ErrorKind::Unsupported, "normalizer has 'form', which is not known; the known ones are type"},
    {"NormalizerNoType", [](auto& t) { t["normalizer"] = json::object(); }, ErrorKind::Malformed,
     "normalizer.type is missing"},
    {"NormalizerArray", [](auto& t) { t["normalizer"] = json::array(); }, ErrorKind::Malformed,
     "normalizer is an array; it must"},
    {"NormalizerInside",
     [](auto& t) {
       t["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Nmt2"}}}}};
     },
     ErrorKind::Unsupported, "normalizer.normalizers[0].type is 'Nmt2'"},
    {"PatternEmpty", [](auto& t) { t["normalizer"]["pattern"]["String"] = ""; }, ErrorKind::Malformed,
     "normalizer.pattern is empty"},
    {"PatternKind",
     [](auto& t) {
       t["normalizer"]["pattern"] = {{"Glob", "*"}};
     },
     ErrorKind::Unsupported, "normalizer.pattern has 'Glob'"},
    {"RegexBroken", [](auto& t) { t["pre_tokenizer"]["pattern"]["Regex"] = "(a"; }, ErrorKind::Unsupported,
     "pre_tokenizer.pattern.Regex is the pattern '(a', which cannot be used"},
    {"RegexHuge", [](auto& t) { t["pre_tokenizer"]["pattern"]["Regex"] = std::string(20'000, 'a'); },
     ErrorKind::Unsupported, "is a pattern of 20000 bytes"},
    {"RegexNestedRepeats", [](auto& t) { t["pre_tokenizer"]["pattern"]["Regex"] = "(((a{1000}){1000}){1000}){1000}"; },
     ErrorKind::Unsupported, "which cannot be used"},
    {"RegexCode", [](auto& t) { t["pre_tokenizer"]["pattern"]["Regex"] = "(*LIMIT_MATCH=1)a"; }, ErrorKind::Unsupported,
     "(*"},
    {"RegexClassInClass", [](auto& t) { t["pre_tokenizer"]["pattern"]["Regex"] = "[a[bc]]"; }, ErrorKind::Unsupported,
     "a class inside a class"},
    {"RegexIntersection", [](auto& t) { t["pre_tokenizer"]["pattern"]["Regex"] = "[a-z&&x]"; }, ErrorKind::Unsupported,
     "&&"},
    {"Behavior", [](auto& t) { t["pre_tokenizer"]["behavior"] = "Merged"; }, ErrorKind::Unsupported,
     "pre_tokenizer.behavior is 'Merged', which is not known; the known ones are Removed, Isolated"},
    {"PreTokenizer",
     [](auto& t) {
       t["pre_tokenizer"] = {{"type", "Sentences"}};
     },
     ErrorKind::Unsupported, "pre_tokenizer.type is 'Sentences', which is not known; the known ones are ByteLevel"},
    {"ScriptsMember",
     [](auto& t) {
       t["pre_tokenizer"] = {{"type", "UnicodeScripts"}, {"length", 5}};
     },
     ErrorKind::Unsupported, "pre_tokenizer has 'length', which is not known; the known ones are type"},
    {"LengthZero", [](auto& t) { set_length(t, 0); }, ErrorKind::Malformed,
     "pre_tokenizer.length is 0; it must be a whole number from 1 to 9223372036854775807"},
    {"LengthNegative", [](auto& t) { set_length(t, -1); }, ErrorKind::Malformed, "pre_tokenizer.length is -1"},
    {"LengthHuge", [](auto& t) { set_length(t, uint64_t{1} << 63); }, ErrorKind::Malformed,
     "pre_tokenizer.length is 9223372036854775808"},
    {"LengthBeyondIntegers", [](auto& t) { set_length(t, 1e300); }, ErrorKind::Malformed,
     "pre_tokenizer.length is 1e+300"},
    {"LengthFraction", [](auto& t) { set_length(t, 2.0); }, ErrorKind::Malformed, "pre_tokenizer.length is 2.0"},
    {"LengthString", [](auto& t) { set_length(t, "5"); }, ErrorKind::Malformed, "pre_tokenizer.length is '5'"},
    {"LengthBool", [](auto& t) { set_length(t, true); }, ErrorKind::Malformed, "pre_tokenizer.length is true"},
    {"LengthArray", [](auto& t) { set_length(t, json::array({5})); }, ErrorKind::Malformed,
     "pre_tokenizer.length is an array"},
    {"LengthMember", [](auto& t) { set_length(t, 5), t["pre_tokenizer"]["unit"] = "byte"; }, ErrorKind::Unsupported,
     "pre_tokenizer has 'unit'"},
    {"Metaspace",
     [](auto& t) {
       t["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "__"}};
     },
     ErrorKind::Malformed, "pre_tokenizer.replacement must be one character"},
    {"Scheme",
     [](auto& t) {
       t["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}};
     },
     ErrorKind::Unsupported, "pre_tokenizer.prepend_scheme is 'last'"},
    {"PostProcessor", [](auto& t) { t["post_processor"]["type"] = "X"; }, ErrorKind::Unsupported,
     "post_processor.type is 'X'"},
    {"PostProcessorId", [](auto& t) { t["post_processor"]["special_tokens"]["<s>"]["ids"] = {7}; },
     ErrorKind::Malformed, "post_processor names the id 7, which no token has"},
    {"PostProcessorName", [](auto& t) { t["post_processor"]["single"][0]["SpecialToken"]["id"] = "<b>"; },
     ErrorKind::Malformed, "post_processor.special_tokens.<b> is missing"},
    {"PostProcessorNoText", [](auto& t) { t["post_processor"]["single"].erase(1); }, ErrorKind::Malformed,
     "has no text"},
    {"Decoder",
     [](auto& t) {
       t["decoder"] = {{"type", "Join"}};
     },
     ErrorKind::Unsupported, "decoder.type is 'Join', which is not known; the known ones are ByteLevel"},
    {"DecoderPadEmpty",
     [](auto& t) {
       t["decoder"] = {{"type", "CTC"}, {"pad_token", ""}, {"word_delimiter_token", "|"}, {"cleanup", true}};
     },
     ErrorKind::Malformed, "decoder.pad_token is empty"},
    {"DecoderDelimiterEmpty",
     [](auto& t) {
       t["decoder"] = {{"type", "CTC"}, {"pad_token", "a"}, {"word_delimiter_token", ""}, {"cleanup", true}};
     },
     ErrorKind::Malformed, "decoder.word_delimiter_token is empty"},
    {"DecoderCount",
     [](auto& t) {
       t["decoder"] = {{"type", "Strip"}, {"content", "a"}, {"start", -1}, {"stop", 0}};
     },
     ErrorKind::Malformed, "decoder.start is -1"},
    {"ScoreString", [](auto& t) { set_unigram(t, R"([["a", "b"]])"); }, ErrorKind::Malformed,
     "model.vocab[0] must be a token and its score"},
    {"UnknownId", [](auto& t) { set_unigram(t, R"([["a", -1.5]])"), t["model"]["unk_id"] = 1; }, ErrorKind::Malformed,
     "model.unk_id is 1"},
    {"LongPiece", [](auto& t) { set_unigram(t, (R"([[")" + std::string(513, 'a') + R"(", -1.5]])").c_str()); },
     ErrorKind::Malformed, "of 513 bytes; a token of such a model has at most 512"},
    {"WordsUnknown", [](auto& t) { set_word_level(t, "<unk>"); }, ErrorKind::Malformed,
     "model.unk_token is '<unk>', which is not in model.vocab"},
    {"WordsUnknownAddedAlone", [](auto& t) { set_word_level(t, "<s>"); }, ErrorKind::Malformed,
     "model.unk_token is '<s>', which is not in model.vocab"},
    {"WordsUnknownNull", [](auto& t) { set_word_level(t, nullptr); }, ErrorKind::Malformed,
     "model.unk_token is missing"},
    {"WordsUnknownNumber", [](auto& t) { set_word_level(t, 0); }, ErrorKind::Malformed,
     "model.unk_token is 0; it must be a string"},
    {"WordsMember", [](auto& t) { set_word_level(t, "a"), t["model"]["fuse_unk"] = true; }, ErrorKind::Unsupported,
     "model has 'fuse_unk'"},
    {"WordsArray", [](auto& t) { set_word_level(t, "a"), t["model"]["vocab"] = json::parse(R"([["a", 1.5]])"); },
     ErrorKind::Malformed, "model.vocab must be an object for a model of type 'WordLevel'"},
    {"WordsIdTwice", [](auto& t) { set_word_level(t, "a"), t["model"]["vocab"]["b"] = 0; }, ErrorKind::Malformed,
     "the id 0, which 'a' has too"},
};

INSTANTIATE_TEST_SUITE_P(TokenizerJson, RefusedJson, testing::ValuesIn(kRefusals),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(HostileJson, TextThatIsNone) {
  expect_refused("", ErrorKind::Malformed, "is no JSON that can be read, at byte");
  expect_refused("{", ErrorKind::Malformed, "is no JSON that can be read, at byte");
  expect_refused("7", ErrorKind::Malformed, "is a single value; it must be an object");
  expect_refused("[]", ErrorKind::Malformed, "is an array; it must be an object");
  expect_refused("{} x", ErrorKind::Malformed, "is no JSON that can be read");
  expect_refused(std::string("{\"a\0\": 1}", 10), ErrorKind::Malformed, "has a NUL, at byte 4");
  expect_refused("{\"a\": \"\xFF\"}", ErrorKind::Malformed, "is not UTF-8");
  expect_refused("{\"version\": 1e999}", ErrorKind::Malformed, "is no JSON that can be read");
  expect_refused(R"({"version": "1.0", "version": "1.0"})", ErrorKind::Malformed, "has the key 'version' twice");
  expect_refused(R"({"model": {"vocab": {"a": 0, "a": 1}}})", ErrorKind::Malformed, "has the token 'a' twice");
  expect_refused(R"({"model": {"vocab": {"a": 0}, "vocab": {"b": 1}}})", ErrorKind::Malformed,
                 "has the key 'vocab' twice");
}

TEST(HostileJson, DeepAndWide) {
  const std::string deep(1'000'000, '[');
  expect_refused("{\"normalizer\": " + deep, ErrorKind::Malformed, "nests more than 32 levels");
  expect_refused("{\"model\": {\"merges\": " + deep, ErrorKind::Malformed, "nests more than 32 levels");
  json wide = small();
  wide["padding"] = json::array();
  for (int i = 0; i < 70'000; ++i) wide["padding"].push_back(0);
  expect_refused(wide.dump(), ErrorKind::DoesNotFit, "it has more than 65536 values beside its vocabulary");
}

// A part that is its continuing prefix alone makes a merge that gives back its left side: a loop, were merges not
// symbols taken away.
TEST(HostileJson, MergesThatLeadBack) {
  json t = small();
  t["model"]["vocab"] = json::parse(R"({"a": 0, "##": 1, "##a": 2})");
  t["model"]["continuing_subword_prefix"] = "##";
  t["model"]["merges"] = json::parse(R"(["a ##", "##a ##"])");
  t["normalizer"] = t["pre_tokenizer"] = nullptr;
  const auto ids = read(t.dump())->encode(std::string(50'000, 'a'), SpecialTokens::AsText);
  EXPECT_EQ(ids.size(), 50'000u);
}

// A length is a number to count down from, not memory; and words have no bound but that of all tokens.
TEST(HostileJson, LengthsAndWordsThatAreHuge) {
  json t = small();
  set_word_level(t, "a");
  const std::string word(60'000, 'b');
  t["model"]["vocab"][word] = 2;
  t["added_tokens"] = json::array();
  t["normalizer"] = t["post_processor"] = nullptr;
  set_length(t, INT64_MAX);
  EXPECT_THAT(read(t.dump())->encode(word, SpecialTokens::AsText), testing::ElementsAre(2));
  EXPECT_THAT(read(t.dump())->encode(std::string(2'000'000, 'b'), SpecialTokens::AsText), testing::ElementsAre(0));
  set_length(t, 1);
  EXPECT_THAT(read(t.dump())->encode(word, SpecialTokens::AsText), testing::Each(1));
}

// Patterns that would take a backtracking engine exponential, cubic or quadratic time. Either they are refused by name,
// or they do what they say; both at once.
TEST(HostileJson, PatternsThatCostTooMuch) {
  std::string text(100'000, 'a');
  text += "b";
  for (const char* const pattern : {"(a+)+$", "(a|aa)+$", "(a|a)*c", "a*a*a*a*c", "(?:a*)*c", "(?=a*c)a", "a*c|a",
                                    "(.*)(.*)(.*)(.*)c", "(?<!a{50})c|(a?){50}c", "((a?)*)*c"}) {
    json t = small();
    t["pre_tokenizer"]["pattern"]["Regex"] = pattern;
    const auto tokenizer = read(t.dump());
    try {
      const auto ids = tokenizer->encode(text, SpecialTokens::AsText);
      EXPECT_GT(ids.size(), 0u);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
      EXPECT_THAT(error.what(),
                  HasSubstr(std::string("the tokenizer's pattern '") + pattern + "' needs too many steps"));
    }
  }
}

// Long words are no reason to refuse a pattern: they are looked at once.
TEST(HostileJson, LongMatchesAreFine) {
  json t = small();
  t["pre_tokenizer"]["pattern"]["Regex"] = R"(\s*[\r\n]+|\s+(?!\S)|\s+|a+|[^\sa]+)";
  const auto tokenizer = read(t.dump());
  EXPECT_EQ(tokenizer->encode(std::string(2'000'000, 'a'), SpecialTokens::AsText).size(), 2'000'000u);
  EXPECT_TRUE(tokenizer->encode(std::string(2'000'000, ' '), SpecialTokens::AsText).empty());
}

}  // namespace
}  // namespace lockstep
