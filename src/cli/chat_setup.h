// Chat templates as commands have them: the model's, or one that a flag names.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "cli/model_files.h"
#include "cli/output.h"
#include "text/text.h"

namespace lockstep {

struct ChatFlags {
  std::optional<std::string> chat_template;  // a file, or the name of one of the model's
  Json tools, documents;                     // lists; null: none
  Json variables = Json::object();           // more that the template may read

  bool has_variables() const { return !variables.empty() || !tools.is_null() || !documents.is_null(); }
};

void add_chat_flags(CLI::App& app, ChatFlags& flags);  // --chat-template, --chat-template-kwargs

// Whether the model's files hold a chat template.
bool has_chat_template(const Checkpoint& checkpoint);

// Turns conversations into prompts. The model must outlive it.
class ChatSetup {
 public:
  // Throws Error(Unsupported) when there is no tokenizer, or no template and none is named; Error(Malformed) for a
  // template that cannot be read, which is never replaced by another.
  ChatSetup(const Model& model, const ChatFlags& flags);

  // messages: [{"role", "content", ...}]. Throws what ChatEncoder::encode() does.
  ChatEncoder::Prompt prompt(const Json& messages, int64_t most_tokens) const;

 private:
  ChatEncoder encoder_;
  ChatFlags flags_;
};

}  // namespace lockstep
