// Chat templates: from messages to the text a model was trained on.
//
// A template is a small program in the Jinja language that comes with a model. ChatTemplate runs it as Hugging Face
// transformers does (jinja2 3.1.6 in its immutable sandbox), byte for byte, within bounds of work and memory: templates
// are foreign code. docs/chat-templates.md says what is supported and where each part is.
#pragma once

#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

namespace jinja {
struct Template;
}

// What a template is given. null stands for what is not there; templates see it as none.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();  // [{"role": ..., "content": ...}, ...]
  nlohmann::ordered_json tools;                                       // [{"type": "function", ...}, ...]
  nlohmann::ordered_json documents;                                   // [{"title": ..., "text": ...}, ...]
  // More variables: {"enable_thinking": false, "reasoning_effort": "low"}.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  std::map<std::string, std::string> special_tokens;  // "bos_token" -> "<s>"; variables of the same name come first
  bool add_generation_prompt = true;
  std::tm now = local_time();  // what strftime_now() tells

  static std::tm local_time();
};

// Immutable; several threads may render at once.
class ChatTemplate {
 public:
  // name: for messages, "model.gguf: tokenizer.chat_template". Throws Error(Malformed | Unsupported | DoesNotFit) with
  // the name and the line.
  ChatTemplate(std::string name, std::string_view source);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // The prompt. Throws Error in one line with the name and the line: Usage when the template refuses the input
  // (raise_exception), Malformed when it fails, Unsupported when it uses what is not there, DoesNotFit when it takes
  // too much. The bounds grow with the template and the input.
  std::string render(const ChatInput& input) const;

  const std::string& name() const { return name_; }

 private:
  std::string name_;
  size_t source_size_;
  std::unique_ptr<const jinja::Template> tree_;
};

// Messages as Hugging Face's apply_chat_template hands them to templates: members that are null are left out, and
// reasoning under one of its names ("reasoning_content", "thinking", "reasoning") is there as "reasoning_content", and
// as "thinking" where that is not given. Throws Error(Usage) for what is no list of objects.
nlohmann::ordered_json normalized_messages(const nlohmann::ordered_json& messages);

struct NamedTemplate {
  std::string name;  // "default", "tool_use", "rag", ...
  std::string source;
};

// The templates in a value of "chat_template" of tokenizer_config.json or chat_template.json: a string, or a list of
// {"name": ..., "template": ...}. file: for messages. Throws Error(Malformed).
std::vector<NamedTemplate> read_templates(const nlohmann::ordered_json& chat_template, std::string_view file);

// "default" for the GGUF key "tokenizer.chat_template", NAME for "tokenizer.chat_template.NAME", else "".
std::string template_name_of_gguf_key(std::string_view key);

// The one of a model's templates to use: `wanted` where it is not empty; else "tool_use" where there are tools and one
// of this name; else "default"; else the only one. Throws Error(Usage) that lists the names. REQUIRES: there is one.
const NamedTemplate& pick_template(std::span<const NamedTemplate> templates, bool with_tools, std::string_view wanted,
                                   std::string_view file);

}  // namespace lockstep
