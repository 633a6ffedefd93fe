// The door of chat templates: what templates render, against Python jinja2 (tests/oracle/make_template_fixtures.py),
// the errors callers see, hostile templates, and which of several templates is taken.
#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/error.h"
#include "text/template_input.h"

namespace lockstep {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::filesystem::path kFixtures = std::filesystem::path(LOCKSTEP_FIXTURES) / "templates";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

ordered_json read_json(const std::string& name) {
  return ordered_json::parse(read_file(kFixtures / name));
}

// The text, or nothing and the error.
std::optional<std::string> render(const std::string& source, const ChatInput& input = {}, std::string* error = nullptr,
                                  ErrorKind* kind = nullptr) {
  try {
    return ChatTemplate("a.gguf: tokenizer.chat_template", source).render(input);
  } catch (const Error& failure) {
    if (error != nullptr) *error = failure.what();
    if (kind != nullptr) *kind = failure.kind();
    return std::nullopt;
  }
}

std::string error_of(const std::string& source, const ChatInput& input = {}) {
  std::string error = "(none)";
  render(source, input, &error);
  return error;
}

ChatInput hello() {
  ChatInput input;
  input.messages = ordered_json::parse(R"([{"role": "user", "content": "Hello"}])");
  return input;
}

TEST(ChatTemplate, RendersWhatJinja2Renders) {
  const auto inputs = read_json("inputs.json");
  ASSERT_GE(inputs.size(), 80u);
  size_t templates = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFixtures)) {
    if (entry.path().extension() != ".jinja") continue;
    const ChatTemplate chat_template(entry.path().filename(), read_file(entry.path()));
    const auto expected = read_json(entry.path().stem().string() + ".json");
    ASSERT_EQ(expected.size(), inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto input = template_input(inputs[i]["input"]);
      ordered_json text;
      try {
        text = chat_template.render(input);
      } catch (const Error&) {  // null, as in the fixtures
      }
      EXPECT_EQ(text, expected[i]) << entry.path() << " on " << inputs[i]["label"];
    }
    ++templates;
  }
  EXPECT_EQ(templates, 15u);
}

// Single expressions, and templates from the fuzzer's grammar.
TEST(ChatTemplate, AgreesWithJinja2OnSmallTemplates) {
  for (const char* file : {"expressions.json", "random.json"}) {
    const auto cases = read_json(file);
    ASSERT_GE(cases.size(), 200u);
    for (const auto& each : cases) {
      std::string error;
      const auto text = render(each["template"], template_input(each["input"]), &error);
      const ordered_json ours = text ? ordered_json(*text) : ordered_json();
      EXPECT_EQ(ours, each["text"]) << each["template"] << "\n" << error;
    }
  }
}

TEST(ChatTemplate, RefusesHostileTemplates) {
  const std::map<std::string, ErrorKind> kinds{{"DoesNotFit", ErrorKind::DoesNotFit},
                                               {"Malformed", ErrorKind::Malformed},
                                               {"Unsupported", ErrorKind::Unsupported}};
  const auto cases = read_json("hostile.json");
  ASSERT_GE(cases.size(), 60u);
  for (const auto& each : cases) {
    std::string error;
    ErrorKind kind{};
    EXPECT_FALSE(render(each["template"], hello(), &error, &kind).has_value()) << each["name"];
    EXPECT_EQ(kind, kinds.at(each["kind"])) << each["name"] << ": " << error;
    EXPECT_THAT(error, AllOf(HasSubstr("a.gguf: tokenizer.chat_template: line "), Not(HasSubstr("\n"))));
  }
}

TEST(ChatTemplate, RefusesSourcesThatNestOrGrow) {
  const auto repeated = [](std::string_view part, size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += part;
    return text;
  };
  const std::vector<std::pair<std::string, std::string>> parts{{"{{ ", "("},          {"{{ ", "["},
                                                               {"{{ ", "{"},          {"{{ ", "not "},
                                                               {"{{ ", "-"},          {"{{ 1", "+1"},
                                                               {"{{ 1", "~1"},        {"{{ 1", " or 1"},
                                                               {"{{ a", ".a"},        {"{{ a", "[0]"},
                                                               {"{{ a", "|e"},        {"{{ a", "()"},
                                                               {"{{ 1", "<1"},        {"{{ 1", " if 1 else 1"},
                                                               {"{{ [", "1,"},        {"{{ {", "1:1,"},
                                                               {"{{ a(", "1,"},       {"", "{{a}}"},
                                                               {"", "{%if a%}"},      {"", "{%for a in b%}"},
                                                               {"", "{%macro a()%}"}, {"{%if a%}", "{%elif a%}"},
                                                               {"{%set ", "a,"},      {"{%set ", "("}};
  for (const auto& [begin, part] : parts) {
    ErrorKind kind{};
    EXPECT_FALSE(render(begin + repeated(part, 400'000), {}, nullptr, &kind).has_value()) << part;
    EXPECT_EQ(kind, ErrorKind::DoesNotFit) << part;
  }
  EXPECT_THAT(error_of(repeated("a", 600'000)), HasSubstr("the template has 600000 bytes; at most 524288 are read"));
}

TEST(ChatTemplate, NamesTheLineOfAnError) {
  const std::string name = "a.gguf: tokenizer.chat_template: ";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"a\n{{ 1 +\n\n }}", "line 4: '}}' stands where an expression should"},
      {"{% if x %}\n\n{% endfor %}", "line 3: the tag 'endfor' cannot stand here; 'if' is open"},
      {"\n{% nothing %}", "line 2: the tag 'nothing' is not known"},
      {"{% for x in y %}\n", "line 1: the tag 'for' is never closed"},
      {"\n\n{{ x|nothing }}", "line 3: there is no filter 'nothing'"},
      {"\n{{ x is nothing }}", "line 2: there is no test 'nothing'"},
      {"{{ 'abc }}", "line 1: a string has no end"},
      {"\n{# abc", "line 2: a comment has no end"},
      {"{{ (1] }}", "line 1: ']' stands where ')' should"},
      {"\n{{ 1 / 0 }}", "line 2: a division by zero"},
      {"\n\n{{ messages[0].content + 1 }}", "line 3: '+' cannot join a str and a int"},
      {"\n\n{{ messages[0].nothing.x }}", "line 3: a dict has no attribute or key 'nothing'"},
      {"{{ messages[7].x }}", "line 1: a list has no such element"},
      {"\n{{ nowhere.x }}", "line 2: 'nowhere' is undefined"},
      {"{% macro m() %}\n{{ 1 + 'a' }}\n{% endmacro %}\n{{ m() }}", "line 2: '+' cannot join a int and a str"},
      {"{% macro m() %}\n{{ 1 }}\n{% endmacro %}\n{{ m() + 1 }}", "line 4: '+' cannot join a str and a int"},
      {"\n{{ 'x'|urlize }}", "line 2: not supported: the filter 'urlize'"},
      {"{% include 'x' %}", "line 1: not supported: the tag 'include' has no use in a chat template"},
      {"{{ 99999999999999999999 }}", "line 1: not supported: the integer '99999999999999999999' has more than 64 bits"},
  };
  for (const auto& [source, message] : cases) EXPECT_EQ(error_of(source, hello()), name + message) << source;
}

TEST(ChatTemplate, TellsWhatATemplateRaises) {
  std::string error;
  ErrorKind kind{};
  EXPECT_FALSE(render("\n{{ raise_exception('Roles must\nalternate!') }}", hello(), &error, &kind).has_value());
  EXPECT_EQ(error, "a.gguf: tokenizer.chat_template: line 2: the template refuses this: Roles must\\nalternate!");
  EXPECT_EQ(kind, ErrorKind::Usage);
}

TEST(ChatTemplate, GivesTemplatesTheirVariables) {
  ChatInput input = hello();
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  input.variables = ordered_json::parse(R"({"enable_thinking": false, "eos_token": "<end>"})");
  input.add_generation_prompt = false;
  EXPECT_EQ(render("{{ bos_token }}{{ eos_token }}{{ enable_thinking }}{{ add_generation_prompt }}{{ tools }}"
                   "{{ documents is none }}{{ pad_token is defined }}",
                   input),
            "<s><end>FalseFalseNoneTrueFalse");
  input.variables = ordered_json::parse(R"({"messages": []})");
  EXPECT_THAT(error_of("x", input), HasSubstr("the variable 'messages' is not for callers to set"));
  input.variables = ordered_json::parse(R"([1])");
  EXPECT_THAT(error_of("x", input), HasSubstr("must be a JSON object"));
}

TEST(ChatTemplate, RefusesInputItCannotHold) {
  ChatInput input = hello();
  input.tools = ordered_json::parse("[18446744073709551615]");
  EXPECT_THAT(error_of("{{ tools }}", input), HasSubstr("the integer 18446744073709551615; an integer has 64 bits"));
  input.tools = "\xff";
  EXPECT_THAT(error_of("{{ tools }}", input), HasSubstr("no UTF-8"));
  input.tools = ordered_json();
  for (int i = 0; i < 200; ++i) input.tools = ordered_json::array({input.tools});
  EXPECT_THAT(error_of("x", input), HasSubstr("the input nests more than 100 deep"));
}

// The bounds grow with the input: a long conversation is no attack.
TEST(ChatTemplate, RendersLongConversations) {
  ChatInput input;
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  for (int i = 0; i < 2000; ++i) {
    input.messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(500, 'a')}});
  }
  for (const char* name : {"qwen3_thinking.jinja", "mistral_tools.jinja", "kimi_minimax.jinja"}) {
    std::string error;
    const auto text = render(read_file(kFixtures / name), input, &error);
    ASSERT_TRUE(text.has_value()) << name << error;
    EXPECT_GT(text->size(), 1'000'000u);
  }
}

TEST(NormalizedMessages, AreWhatHuggingFaceHandsOver) {
  const auto given = ordered_json::parse(R"([{"role": "user", "content": "a"},
      {"role": "assistant", "content": null, "tool_calls": [{"x": null}], "thinking": "t"},
      {"role": "assistant", "reasoning": "r", "content": "b"},
      {"role": "assistant", "reasoning_content": "1", "thinking": "2"}])");
  EXPECT_EQ(normalized_messages(given).dump(), ordered_json::parse(R"([{"role": "user", "content": "a"},
      {"thinking": "t", "role": "assistant", "tool_calls": [{"x": null}], "reasoning_content": "t"},
      {"thinking": "r", "role": "assistant", "reasoning": "r", "content": "b", "reasoning_content": "r"},
      {"thinking": "2", "role": "assistant", "reasoning_content": "1"}])")
                                                   .dump());
  EXPECT_THROW(normalized_messages(ordered_json::parse(R"(["a"])")), Error);
  EXPECT_THROW(normalized_messages(ordered_json::parse(R"({"role": "user"})")), Error);
}

TEST(NamedTemplates, AreReadFromBothShapes) {
  const auto one = read_templates("{{ x }}", "f");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].name, "default");
  const auto two = read_templates(
      ordered_json::parse(R"([{"name": "default", "template": "a"}, {"name": "rag", "template": "b"}])"), "f");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].name + two[1].source, "ragb");
  for (const char* json : {"1", "[1]", R"([{"name": "a"}])", R"([{"name": 1, "template": "a"}])",
                           R"([{"name": "a", "template": "x"}, {"name": "a", "template": "y"}])"}) {
    EXPECT_THROW(read_templates(ordered_json::parse(json), "f"), Error) << json;
  }
}

TEST(NamedTemplates, OfGgufHaveTheirNameInTheKey) {
  EXPECT_EQ(template_name_of_gguf_key("tokenizer.chat_template"), "default");
  EXPECT_EQ(template_name_of_gguf_key("tokenizer.chat_template.tool_use"), "tool_use");
  EXPECT_EQ(template_name_of_gguf_key("tokenizer.chat_templates"), "");
  EXPECT_EQ(template_name_of_gguf_key("tokenizer.chat_template."), "");
  EXPECT_EQ(template_name_of_gguf_key("tokenizer.ggml.model"), "");
}

TEST(NamedTemplates, ArePickedByWhatIsAsked) {
  const std::vector<NamedTemplate> all{{"default", ""}, {"tool_use", ""}, {"rag", ""}};
  EXPECT_EQ(pick_template(all, false, "", "f").name, "default");
  EXPECT_EQ(pick_template(all, true, "", "f").name, "tool_use");
  EXPECT_EQ(pick_template(all, true, "rag", "f").name, "rag");
  EXPECT_EQ(pick_template(std::span(all).first(1), true, "", "f").name, "default");
  EXPECT_EQ(pick_template(std::span(all).last(1), false, "", "f").name, "rag");
  const auto error = [&](std::span<const NamedTemplate> templates, std::string_view wanted) {
    try {
      pick_template(templates, false, wanted, "f");
    } catch (const Error& failure) {
      return std::string(failure.what());
    }
    return std::string("(none)");
  };
  EXPECT_EQ(error(all, "x"), "f has no chat template 'x'; it has 'default', 'tool_use', 'rag'");
  EXPECT_EQ(error(std::span(all).last(2), ""),
            "f has several chat templates and no default: 'tool_use', 'rag'; name one of them");
}

}  // namespace
}  // namespace lockstep
