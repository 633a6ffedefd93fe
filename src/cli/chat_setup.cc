// Where templates are: in a GGUF file's metadata, in files beside config.json, or in the file of a flag.
#include "cli/chat_setup.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/quoted.h"
#include "cli/prompt.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMoreTemplates = "additional_chat_templates";

std::string text_of(const fs::path& path) {
  return read_text_file("the model's", path.string());
}

struct Found {
  std::string file;  // for messages
  std::vector<NamedTemplate> templates;
};

Found in_gguf(const Metadata& metadata) {
  Found found{metadata.file(), {}};
  for (const auto& [key, value] : metadata.entries()) {
    const std::string name = template_name_of_gguf_key(key);
    if (!name.empty()) found.templates.push_back({name, std::string(*metadata.get_string(key))});
  }
  return found;
}

// Files of their own come before what tokenizer_config.json says, and that before the older chat_template.json.
Found in_folder(const fs::path& folder) {
  Found found{folder.string(), {}};
  if (const fs::path own = folder / "chat_template.jinja"; is_file(own)) {
    found.templates.push_back({"default", text_of(own)});
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / kMoreTemplates, ignored)) {
    if (entry.path().extension() == ".jinja") found.templates.push_back({entry.path().stem(), text_of(entry.path())});
  }
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    const bool has_default = std::ranges::count(found.templates, "default", &NamedTemplate::name) > 0;
    if (has_default || !is_file(folder / name)) continue;
    const Json json = read_json_file("the model's", (folder / name).string(), "chat_template");
    if (!json.is_object()) fail(ErrorKind::Malformed, "{}: it is no JSON object", (folder / name).string());
    const auto value = json.find("chat_template");
    if (value == json.end() || value->is_null()) continue;
    for (NamedTemplate& more : read_templates(*value, (folder / name).string())) {
      found.templates.push_back(std::move(more));
    }
  }
  std::ranges::sort(found.templates, {}, &NamedTemplate::name);
  return found;
}

Found templates_of(const Checkpoint& checkpoint) {
  const Metadata& metadata = checkpoint.metadata();
  if (checkpoint.naming() == Naming::Gguf) return in_gguf(metadata);
  return in_folder(fs::path(metadata.file()).parent_path());
}

ChatTemplate choose(const Model& model, const ChatFlags& flags) {
  const std::string named = flags.chat_template.value_or("");
  const Found found = templates_of(*model.checkpoint);
  const bool is_name = std::ranges::count(found.templates, named, &NamedTemplate::name) > 0 && !is_file(named);
  if (flags.chat_template && !is_name) return ChatTemplate(named, read_text_file("--chat-template", named));
  if (found.templates.empty()) {
    fail(ErrorKind::Unsupported, "{}: the model has no chat template; name a file that holds one with --chat-template",
         model.spec.file);
  }
  const bool with_tools = !flags.tools.is_null() && !flags.tools.empty();
  const NamedTemplate& chosen = pick_template(found.templates, with_tools, named, found.file);
  return ChatTemplate(fmt::format("{}: chat template {}", found.file, in_quotes(chosen.name)), chosen.source);
}

}  // namespace

void add_chat_flags(CLI::App& app, ChatFlags& flags) {
  app.add_option("--chat-template", flags.chat_template,
                 "a Jinja file in the place of the model's chat template, or the name of another one of the model's")
      ->type_name("FILE");
  const auto read = [&flags](const std::string& text) {
    flags.variables = Json::parse(text, nullptr, false);
    if (flags.variables.is_discarded()) {
      fail(ErrorKind::Usage, "--chat-template-kwargs is {}, which is no JSON that can be read", in_quotes(text));
    }
    if (!flags.variables.is_object()) {
      fail(ErrorKind::Usage,
           "--chat-template-kwargs is {}; it must be a JSON object, as in '{{\"enable_thinking\": false}}'",
           in_quotes(text));
    }
    for (auto& [name, list] : {std::pair<const char*, Json&>("tools", flags.tools), {"documents", flags.documents}}) {
      const auto given = flags.variables.find(name);
      if (given == flags.variables.end()) continue;
      if (!given->is_array()) fail(ErrorKind::Usage, "--chat-template-kwargs: {} must be a JSON array", name);
      list = std::move(*given);
      flags.variables.erase(given);
    }
  };
  app.add_option_function<std::string>("--chat-template-kwargs", read,
                                       "more variables for the chat template, as in '{\"enable_thinking\": false}'; "
                                       "tools and documents too")
      ->type_name("JSON");
}

bool has_chat_template(const Checkpoint& checkpoint) {
  return !templates_of(checkpoint).templates.empty();
}

ChatSetup::ChatSetup(const Model& model, const ChatFlags& flags)
    : encoder_(model.encoder("messages need a tokenizer that fits the model"), choose(model, flags)), flags_(flags) {}

ChatEncoder::Prompt ChatSetup::prompt(const Json& messages, int64_t most_tokens) const {
  ChatInput input;
  input.messages = messages;
  input.tools = flags_.tools;
  input.documents = flags_.documents;
  input.variables = flags_.variables;
  return encoder_.encode(std::move(input), most_tokens);
}

}  // namespace lockstep
