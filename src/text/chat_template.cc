// The door of the template interpreter: input to values, failures to errors, and which of several templates is meant.
#include "text/chat_template.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "base/utf8.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace lockstep {
namespace {

using nlohmann::ordered_json;

// What a rendering may cost: so much, and so much more for each byte of template and input. A small conversation stays
// below 100 ms and 10 MB whatever its template does; published templates need a hundredth of it.
constexpr size_t kSteps = 1'000'000;
constexpr size_t kStepsPerByte = 64;
constexpr size_t kBytes = 2 << 20;
constexpr size_t kBytesPerByte = 24;

// Of JSON, roughly as if it were written down.
size_t size_of(const ordered_json& value) {
  size_t size = 16;
  if (value.is_string()) size += value.get_ref<const std::string&>().size();
  for (auto it = value.begin(); value.is_structured() && it != value.end(); ++it) {
    size += size_of(it.value()) + (value.is_object() ? 16 + it.key().size() : 0);
  }
  return size;
}

size_t depth_of(const ordered_json& value) {
  size_t depth = 0;
  if (value.is_structured()) {
    for (const auto& item : value) depth = std::max(depth, depth_of(item));
  }
  return depth + 1;
}

// place: of the text in the input, "messages[0].content".
void check_text(std::string_view text, std::string_view place) {
  for (size_t at = 0; at < text.size();) {
    const auto [kind, length] = next_utf8(text.substr(at));
    if (kind != Utf8Kind::Character) {
      fail(ErrorKind::Usage, "{} has the byte {:#04x} at offset {}, which is no UTF-8; give the text as UTF-8", place,
           static_cast<unsigned char>(text[at]), at);
    }
    at += length;
  }
}

void check_utf8(const ordered_json& value, const std::string& place) {
  if (value.is_string()) check_text(value.get_ref<const std::string&>(), place);
  for (auto it = value.begin(); value.is_structured() && it != value.end(); ++it) {
    if (value.is_array()) {
      check_utf8(*it, fmt::format("{}[{}]", place, it - value.begin()));
    } else {
      check_text(it.key(), place + ": a name in it");
      check_utf8(*it, fmt::format("{}.{}", place, one_line(it.key())));
    }
  }
}

jinja::Value to_value(jinja::Runtime& runtime, const ordered_json& json) {
  switch (json.type()) {
    case ordered_json::value_t::null:
      return jinja::None();
    case ordered_json::value_t::boolean:
      return json.get<bool>();
    case ordered_json::value_t::number_integer:
      return json.get<int64_t>();
    case ordered_json::value_t::number_float:
      return json.get<double>();
    case ordered_json::value_t::string:
      return runtime.text(json.get_ref<const std::string&>());
    case ordered_json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > INT64_MAX) jinja::unsupported("the input has the integer {}; an integer has 64 bits", number);
      return static_cast<int64_t>(number);
    }
    case ordered_json::value_t::array: {
      jinja::Items items(runtime);
      for (const auto& item : json) items.push(to_value(runtime, item));
      return runtime.list(items.take());
    }
    case ordered_json::value_t::object: {
      jinja::Dict dict;
      for (const auto& [key, value] : json.items()) {
        put_in_dict(runtime, dict, runtime.text(key), to_value(runtime, value));
      }
      return runtime.dict(std::move(dict));
    }
    default:
      break;
  }
  throw jinja::Failure(ErrorKind::Usage, "the input has what is no JSON");
}

[[noreturn]] void rethrow(const std::string& name, const jinja::Failure& failure, int line) {
  const int where = failure.line != 0 ? failure.line : line;
  fail(failure.kind, "{}: line {}: {}{}", one_line(name), where,
       failure.kind == ErrorKind::Unsupported ? "not supported: " : "", failure.message);
}

constexpr std::array<std::string_view, 4> kOwnVariables{"messages", "tools", "documents", "add_generation_prompt"};

}  // namespace

std::tm ChatInput::local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm result{};
  localtime_r(&now, &result);
  return result;
}

ChatTemplate::ChatTemplate(std::string name, std::string_view source)
    : name_(std::move(name)), source_size_(source.size()) {
  try {
    tree_ = std::make_unique<const jinja::Template>(jinja::parse(source));
  } catch (const jinja::Failure& failure) {
    rethrow(name_, failure, 1);
  }
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const ChatInput& input) const {
  size_t size = source_size_;
  const std::array<std::pair<const char*, const ordered_json*>, 4> parts{{{"messages", &input.messages},
                                                                          {"tools", &input.tools},
                                                                          {"documents", &input.documents},
                                                                          {"the variables", &input.variables}}};
  for (const auto& [name, part] : parts) {
    if (depth_of(*part) > jinja::kMostNesting) {
      fail(ErrorKind::DoesNotFit, "{}: the input nests more than {} deep", one_line(name_), jinja::kMostNesting);
    }
    check_utf8(*part, name);
    size += size_of(*part);
  }
  for (const auto& [name, text] : input.special_tokens) {
    check_text(text, fmt::format("the vocabulary's {}", one_line(name)));
    size += name.size() + text.size() + 32;
  }
  if (!input.variables.is_object() && !input.variables.is_null()) {
    fail(ErrorKind::Usage, "{}: the variables of a chat template must be a JSON object", one_line(name_));
  }
  for (const std::string_view own : kOwnVariables) {
    if (!input.variables.contains(own)) continue;
    fail(ErrorKind::Usage, "{}: the variable '{}' is not for callers to set; leave it out", one_line(name_), own);
  }
  jinja::Interpreter interpreter(kSteps + kStepsPerByte * size, kBytes + kBytesPerByte * size, input.now);
  try {
    for (const auto& [name, text] : input.special_tokens) {
      interpreter.set_variable(name, interpreter.text(text));
    }
    for (const auto& [name, value] : input.variables.items()) {
      interpreter.set_variable(name, to_value(interpreter, value));
    }
    interpreter.set_variable("messages", to_value(interpreter, input.messages));
    interpreter.set_variable("tools", to_value(interpreter, input.tools));
    interpreter.set_variable("documents", to_value(interpreter, input.documents));
    interpreter.set_variable("add_generation_prompt", input.add_generation_prompt);
    return interpreter.run(*tree_);
  } catch (const jinja::Failure& failure) {
    rethrow(name_, failure, interpreter.line());
  }
}

ordered_json normalized_messages(const ordered_json& messages) {
  if (!messages.is_array()) fail(ErrorKind::Usage, "messages must be a JSON array of objects");
  constexpr std::array kReasoning{"reasoning_content", "thinking", "reasoning"};
  ordered_json result = ordered_json::array();
  for (const auto& message : messages) {
    if (!message.is_object()) {
      fail(ErrorKind::Usage, "message {} is no JSON object with \"role\" and \"content\"", result.size());
    }
    ordered_json kept = ordered_json::object();
    for (const auto& [key, value] : message.items()) {
      if (!value.is_null()) kept[key] = value;
    }
    const auto* const name = std::ranges::find_if(kReasoning, [&](const char* key) { return kept.contains(key); });
    if (name != kReasoning.end()) {
      const ordered_json reasoning = kept[*name];
      ordered_json with_thinking{{"thinking", reasoning}};
      with_thinking.update(kept);
      with_thinking["reasoning_content"] = reasoning;
      kept = std::move(with_thinking);
    }
    result.push_back(std::move(kept));
  }
  return result;
}

std::vector<NamedTemplate> read_templates(const ordered_json& chat_template, std::string_view file) {
  if (chat_template.is_string()) return {{"default", chat_template.get<std::string>()}};
  std::vector<NamedTemplate> templates;
  const auto malformed = [&] {
    fail(ErrorKind::Malformed,
         "{}: chat_template must be a string or a list of {{\"name\": ..., \"template\": ...}} with different names",
         one_line(file));
  };
  if (!chat_template.is_array()) malformed();
  for (const auto& entry : chat_template) {
    const auto text = [&](const char* key) {
      if (!entry.is_object() || !entry.contains(key) || !entry[key].is_string()) malformed();
      return entry[key].get<std::string>();
    };
    NamedTemplate read{text("name"), text("template")};
    if (std::ranges::find(templates, read.name, &NamedTemplate::name) != templates.end()) malformed();
    templates.push_back(std::move(read));
  }
  return templates;
}

std::string template_name_of_gguf_key(std::string_view key) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (key == kKey) return "default";
  if (!key.starts_with(kKey) || key.size() <= kKey.size() + 1 || key[kKey.size()] != '.') return "";
  return std::string(key.substr(kKey.size() + 1));
}

const NamedTemplate& pick_template(std::span<const NamedTemplate> templates, bool with_tools, std::string_view wanted,
                                   std::string_view file) {
  const auto find = [&](std::string_view name) {
    const auto found = std::ranges::find(templates, name, &NamedTemplate::name);
    return found == templates.end() ? nullptr : &*found;
  };
  std::vector<std::string_view> tried;
  if (!wanted.empty()) {
    tried = {wanted};
  } else if (with_tools) {
    tried = {"tool_use", "default"};
  } else {
    tried = {"default"};
  }
  for (const std::string_view name : tried) {
    if (const auto* found = find(name)) return *found;
  }
  if (wanted.empty() && templates.size() == 1) return templates[0];
  std::vector<std::string> names;
  for (const auto& each : templates) names.push_back(in_quotes(each.name));
  if (wanted.empty()) {
    fail(ErrorKind::Usage, "{} has several chat templates and no default: {}; name one of them", one_line(file),
         fmt::join(names, ", "));
  }
  fail(ErrorKind::Usage, "{} has no chat template {}; it has {}", one_line(file), in_quotes(wanted),
       fmt::join(names, ", "));
}

}  // namespace lockstep
