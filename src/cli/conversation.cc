// Messages as JSON, and their checks.
#include "cli/conversation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "cli/output_file.h"
#include "cli/prompt.h"

namespace lockstep {
namespace {

constexpr auto kRoles = std::to_array<std::string_view>({"system", "user", "assistant", "tool", "developer"});

bool is_role(const Json& message, std::string_view role) {
  return message.at("role") == role;
}

// A message of a file, checked as far as templates rely on it.
void check_message(const Json& message, size_t number, const std::string& file) {
  const auto bad = [&](std::string_view what) { fail(ErrorKind::Malformed, "{}: message {} {}", file, number, what); };
  if (!message.is_object()) bad("is no object");
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) bad("has no \"role\" that is a string");
  if (std::find(kRoles.begin(), kRoles.end(), role->get_ref<const std::string&>()) == kRoles.end()) {
    bad(fmt::format("has the role {}; known: system, user, assistant, tool, developer",
                    in_quotes(role->get_ref<const std::string&>())));
  }
  const auto content = message.find("content");
  const bool calls = content == message.end() && message.contains("tool_calls");
  const bool text =
      calls || (content != message.end() && (content->is_string() || content->is_array() || content->is_null()));
  if (!text) bad("has no \"content\" that is a string, a list of parts or null");
}

}  // namespace

bool Conversation::has_system() const {
  return !messages_.empty() && is_role(messages_.front(), "system");
}

void Conversation::set_system(std::string_view text) {
  if (has_system()) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), Json{{"role", "system"}, {"content", text}});
}

std::string Conversation::system() const {
  if (!has_system()) return {};
  const Json& content = messages_.front().at("content");
  return content.is_string() ? content.get<std::string>()
                             : content.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Conversation::add_user(std::string_view text) {
  messages_.push_back({{"role", "user"}, {"content", text}});
}

void Conversation::add_answer(std::string_view text, std::string_view reasoning) {
  Json answer{{"role", "assistant"}, {"content", text}};
  if (!reasoning.empty()) answer["reasoning_content"] = reasoning;
  messages_.push_back(std::move(answer));
}

bool Conversation::drop_last_answer() {
  size_t end = messages_.size();
  while (end > 0 && !is_role(messages_[end - 1], "user") && !is_role(messages_[end - 1], "tool")) --end;
  if (end == 0) return false;
  messages_.erase(messages_.begin() + static_cast<Json::difference_type>(end), messages_.end());
  return true;
}

void Conversation::clear() {
  const auto kept = static_cast<Json::difference_type>(has_system() ? 1 : 0);
  messages_.erase(messages_.begin() + kept, messages_.end());
}

void Conversation::save(const std::string& path) const {
  OutputFile file("/save", path, {});
  const std::string text = Json{{"messages", messages_}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  file.write(text.data(), text.size());
  file.close();
}

void Conversation::load(const std::string& path) {
  Json parsed = read_json_file("/load", path);
  Json* list = &parsed;
  if (parsed.is_object() && parsed.contains("messages")) list = &parsed.at("messages");
  if (!list->is_array()) {
    fail(ErrorKind::Malformed, "{}: it holds no conversation, which is JSON as {{\"messages\": [...]}}", path);
  }
  for (size_t i = 0; i < list->size(); ++i) {
    check_message(list->at(i), i + 1, path);
    if (i > 0 && is_role(list->at(i), "system")) {
      fail(ErrorKind::Malformed, "{}: message {} is the system's; only the first may be", path, i + 1);
    }
  }
  messages_ = std::move(*list);
}

}  // namespace lockstep
