// Whether what people write stays text: special tokens, parts of them, and what a normalizer makes of other characters,
// through templates that join and cut; and that conversations without any are encoded as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "text/template_input.h"
#include "text/text.h"

namespace lockstep {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

const std::filesystem::path kTemplates = std::filesystem::path(LOCKSTEP_FIXTURES) / "templates";

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

// A byte-level tokenizer of single bytes.
struct Vocabulary {
  std::vector<std::string> specials;
  ordered_json normalizer{};
  bool normalized = false;

  std::unique_ptr<Tokenizer> tokenizer() const {
    ordered_json json = ordered_json::parse(
        R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
            "decoder": {"type": "ByteLevel"}})");
    auto vocab = ordered_json::object();
    int above = 0;
    for (int byte = 0; byte < 256; ++byte) {
      const bool shown = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      std::string letter;
      append(letter, shown ? byte : 256 + above++);
      vocab[letter] = byte;
    }
    json["normalizer"] = normalizer;
    json["added_tokens"] = ordered_json::array();
    for (const auto& text : specials) {
      const size_t id = vocab.size();
      vocab[text] = id;
      json["added_tokens"].push_back({{"id", id},
                                      {"content", text},
                                      {"special", true},
                                      {"normalized", normalized},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false}});
    }
    json["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"merges", ordered_json::array()}};
    const std::string text = json.dump();
    TokenizerFiles files;
    files.tokenizer = {"tokenizer.json", text};
    return Tokenizer::from_files(files);
  }

 private:
  static void append(std::string& text, int code) {
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {
      text += static_cast<char>(0xC0 | code >> 6);
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
};

const Vocabulary kPlain{{"</s>", "<|im_end|>", "<|user|>", "[INST]"}, nullptr};

ChatInput saying(const std::string& content, const std::string& role = "user") {
  ChatInput input;
  input.messages = {{{"role", role}, {"content", content}}};
  return input;
}

// The special tokens of the prompt, or the error.
std::vector<std::string> specials(const Vocabulary& vocabulary, const std::string& source, const ChatInput& input) {
  const auto tokenizer = vocabulary.tokenizer();
  try {
    std::vector<std::string> found;
    for (const TokenId token : ChatEncoder(*tokenizer, ChatTemplate("t.jinja", source)).encode(input).tokens) {
      if (tokenizer->is_special(token)) found.push_back(tokenizer->piece(token));
    }
    return found;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    return {error.what()};
  }
}

struct Attempt {
  const char* source;
  const char* message;
};

// Every template has one special token of its own.
TEST(ChatEncoder, WhatPeopleWriteTouchesNoSpecialToken) {
  const std::vector<Attempt> attempts{
      {"{{ m }}", "</s>"},
      {"{{ m }}", "a <|im_end|></s><|im_"},
      {"<{{ m }}", "|im_end|>"},
      {"<{{ m | trim }}", " \n|im_end|> b"},
      {"<{{ m }}", "/s>"},
      {"</{{ m }}", "s>"},
      {"</s{{ m }}", ">"},
      {"{{ m }}/s>", "<"},
      {"{{ m }}s>", "a </"},
      {"{{ m | trim }}>", "a </s  "},
      {"{{ m }}NST]", "[I"},
      {"[IN{{ m }}", "ST]"},
      {"{{ m[:8] }}d|>", "x<|im_en. And more."},
      {"<|im{{ m[4:] }}", "abcd_end|>"},
      {"{{ m.split('|')[0] }}s>", "</|q"},
      {"{{ m | replace('|', '') }}", "</|s>"},
      {"{% set a = m.split('|') %}{{ a[0] }}{{ a[1] }}", "<|/s>"},
      {"{{ m | trim('x') }}/s>", "<x"},
      {"{{ m | truncate(1, true, '') }}/s>", "<zzz"},
      {"{{ m | first }}/s>", "<abc"},
      {"{{ m | reverse }}", ">s/<"},
      {"{% for c in m %}{{ c }}{% endfor %}", "</s>"},
      {"{{ m.partition('/')[0] }}/s>", "</s> q"},
      {"{{ '%s' % m }}", "</s>"},
      {"{{ m | tojson }}", "</s>"},
      {"{{ m | upper | lower }}", "</s>"},
      {"{{ m.split('</think>')[-1] }}", "<think>a</think></s>"},    // looked at by the template:
      {"<{{ m.split('</think>')[-1] }}", "/s> b</think>c"},         // whole tokens and their parts
      {"{{ m.split('</think>')[-1] }}/s>", "<think>a</think>b <"},  // at the ends are known
      {"<{{ m | replace('<', '(') }}", "/s> < a"},
      {"{% for part in [m, m] %}{{ part }}{% endfor %}", "s></"},
  };
  for (const auto& [source, message] : attempts) {
    const std::string whole = "{% set m = messages[0].content %}" + std::string(source) + "</s>";
    EXPECT_THAT(specials(kPlain, whole, saying(message)), testing::ElementsAre("</s>")) << source << " " << message;
  }
}

// Roles and variables are written by people, too.
TEST(ChatEncoder, EveryStringOfTheInputIsText) {
  ChatInput input = saying("x", "im_end|><|im_end");
  EXPECT_THAT(specials(kPlain, "<|{{ messages[0].role }}|>", input), testing::IsEmpty());
  input = saying("s>");
  input.variables = {{"name", "<"}, {"</s>", {{"/s>", "</s>"}}}};
  EXPECT_THAT(specials(kPlain, "{{ name }}/{{ messages[0].content }}", input), testing::IsEmpty());
  input.tools = {{{"name", "/s>"}}};
  EXPECT_THAT(specials(kPlain, "<{{ tools[0].name }}[INST]", input), testing::ElementsAre("[INST]"));
}

// What joins between the template's own two ends of a token is its own.
TEST(ChatEncoder, TemplatesMakeSpecialTokensOfRoles) {
  const std::string source = "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}";
  for (const char* content : {"x", "a < b", "> quoted", "|>", "<|", "x<"}) {
    EXPECT_THAT(specials(kPlain, source, saying(content)), testing::ElementsAre("<|user|>")) << content;
  }
}

TEST(ChatEncoder, RefusesWhatATemplateChanges) {
  EXPECT_THAT(
      specials(kPlain, "{{ messages }}", saying("a </s>")).at(0),
      HasSubstr("t.jinja: it changes the special tokens that a message holds, so that nobody can tell them from "
                "its own; leave '</s>' out"));
  const std::string raising = "{% if '</s>' in messages[0].content %}{{ messages[0].content }}{% endif %}";
  EXPECT_THAT(specials(kPlain, raising, saying("a </s>")).at(0), HasSubstr("changes the special tokens"));
}

TEST(ChatEncoder, WhatTheNormalizerMakesIsTextToo) {
  const auto step = [](const char* json) { return ordered_json::parse(json); };
  const ordered_json lower = step(R"({"type": "Lowercase"})"), nfkc = step(R"({"type": "NFKC"})"),
                     replace = step(R"({"type": "Replace", "pattern": {"String": "Q"}, "content": "<"})"),
                     remove = step(R"({"type": "Replace", "pattern": {"String": "#"}, "content": ""})"),
                     longer = step(R"({"type": "Replace", "pattern": {"String": "lt;"}, "content": "<"})"),
                     accents =
                         step(R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]})");
  struct Case {
    ordered_json normalizer;
    const char* source;
    const char* message;
  };
  const std::vector<Case> cases{
      {lower, "{{ m }}", "</S>"},          {lower, "{{ m }}", "a </s> <|IM_END|>"},
      {lower, "<{{ m }}", "/S>"},          {lower, "{{ m }}s>", "</"},
      {nfkc, "{{ m }}", "\uFF1C/s\uFF1E"}, {nfkc, "{{ m }}/s>", "\uFF1C"},
      {nfkc, "<{{ m }}", "/s\uFF1E"},      {replace, "{{ m }}", "Q/s>"},
      {remove, "{{ m }}", "<#/#s>"},       {accents, "{{ m }}", "<\u0301/s>"},
      {accents, "{{ m }}", "\u226E/s>"},
  };
  for (const auto& [normalizer, source, message] : cases) {
    const Vocabulary vocabulary{{"</s>", "<|im_end|>"}, normalizer, true};
    const std::string whole = "{% set m = messages[0].content %}</s>" + std::string(source) + "</S></s>";
    const size_t own = normalizer == lower ? 3 : 2;
    EXPECT_EQ(specials(vocabulary, whole, saying(message)), std::vector<std::string>(own, "</s>"))
        << normalizer << source << message;
  }
  EXPECT_THAT(specials({{"</s>"}, longer, true}, "{{ messages[0].content }}", saying("a lt;/s>")), testing::IsEmpty());
  // What no single character shows is refused.
  EXPECT_THAT(specials({{"<br"}, longer, true}, "{{ messages[0].content }}", saying("a lt;br")),
              testing::ElementsAre(HasSubstr(
                  "a message holds what the tokenizer's normalizer makes a special token of: leave 'a lt;br' out")));
  EXPECT_THAT(specials({{"stop"}, lower, true}, "{{ messages[0].content }}", saying("STOP it")),
              testing::ElementsAre(HasSubstr("leave 'STOP it' out")));
}

// Marks do not show in the tokens of ordinary text.
TEST(ChatEncoder, OrdinaryTextIsEncodedAsItStands) {
  for (const bool normalized : {false, true}) {
    const Vocabulary vocabulary{kPlain.specials, {{"type", "Lowercase"}}, normalized};
    const auto tokenizer = vocabulary.tokenizer();
    for (const char* content : {"", "a < b > c", "[1, 2]", "> quoted", "<think>x</think>", "\U00100000 < \U0010FFFD"}) {
      const auto prompt =
          ChatEncoder(*tokenizer, ChatTemplate("t", "</s>{{ messages[0].content }}</s>")).encode(saying(content));
      EXPECT_EQ(prompt.text, "</s>" + std::string(content) + "</s>");
      EXPECT_EQ(prompt.tokens, tokenizer->encode(prompt.text, SpecialTokens::Parse)) << content;
    }
  }
}

// Conversations that hold no special token: what the template renders, whose special tokens are all its own.
TEST(ChatEncoder, RefusesNoOrdinaryConversation) {
  const Vocabulary vocabulary{{"<|im_start|>", "<|im_end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>",
                               "[INST]", "[/INST]", "<start_of_turn>", "<end_of_turn>", "<bos>", "</s>", "<s>",
                               "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|start|>", "<|message|>",
                               "<|channel|>"}};
  const auto tokenizer = vocabulary.tokenizer();
  const auto inputs = ordered_json::parse(read_file(kTemplates / "inputs.json"));
  size_t encoded = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kTemplates)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string source = read_file(entry.path());
    const ChatTemplate alone("t", source);
    const ChatEncoder encoder(*tokenizer, ChatTemplate("t", source));
    for (const auto& each : inputs) {
      ChatInput input = template_input(each["input"]);
      const std::string all = ordered_json{input.messages, input.tools, input.documents, input.variables}.dump();
      if (std::ranges::any_of(vocabulary.specials, [&](const auto& text) { return all.find(text) != all.npos; }))
        continue;
      ChatInput plain = input;
      plain.special_tokens = tokenizer->named_tokens();
      plain.messages = normalized_messages(plain.messages);
      std::string text;
      try {
        text = alone.render(plain);
      } catch (const Error&) {
        EXPECT_THROW(encoder.encode(input), Error);
        continue;
      }
      const auto prompt = encoder.encode(input);
      EXPECT_EQ(prompt.text, text);
      EXPECT_EQ(prompt.tokens, tokenizer->encode(text, SpecialTokens::Parse)) << entry.path() << each["label"];
      ++encoded;
    }
  }
  EXPECT_GT(encoded, 500u);
}

TEST(ChatEncoder, BlamesThePlaceOfTextThatIsNoUtf8) {
  const auto error = [](const ChatInput& input) { return specials(kPlain, "{{ messages[0].content }}", input).at(0); };
  EXPECT_EQ(error(saying("ab\xFF")),
            "messages[0].content has the byte 0xff at offset 2, which is no UTF-8; give the text as "
            "UTF-8");
  EXPECT_THAT(error(saying("\xC3")), HasSubstr("messages[0].content has the byte 0xc3 at offset 0"));
  ChatInput input = saying("x");
  input.variables = {{"name", {"a", "\x80"}}};
  EXPECT_THAT(error(input), HasSubstr("the variables.name[1] has the byte 0x80 at offset 0"));
  input.variables = {{"n\xFE", 1}};
  EXPECT_THAT(error(input), HasSubstr("the variables: a name in it has the byte 0xfe at offset 1"));
}

}  // namespace
}  // namespace lockstep
