// Fuzz target: any bytes are a chat template, which renders a fixed conversation, or an Error in one line; and what it
// renders is UTF-8. scripts/fuzz runs it; the seeds are the templates among the fixtures.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chat_template.h"

namespace {

using namespace lockstep;

ChatInput conversation() {
  ChatInput input;
  input.messages = nlohmann::ordered_json::parse(R"([
      {"role": "system", "content": "Be <brief> & kind.\n"},
      {"role": "user", "content": "Grüße, 世界 👋"},
      {"role": "assistant", "content": null, "reasoning_content": "hm",
       "tool_calls": [{"id": "call_1", "type": "function",
                       "function": {"name": "f", "arguments": {"x": [1, 2.5, true, null, "a b,c"]}}}]},
      {"role": "tool", "tool_call_id": "call_1", "content": "42"},
      {"role": "user", "content": [{"type": "text", "text": "And?"}]}])");
  input.tools = nlohmann::ordered_json::parse(
      R"([{"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}}])");
  input.documents = nlohmann::ordered_json::parse(R"([{"title": "T", "text": "It's"}])");
  input.variables = nlohmann::ordered_json::parse(R"({"enable_thinking": true, "n": 3, "f": 0.5, "s": " a,B\tß "})");
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  input.now = {};
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ChatInput kInput = conversation();
  try {
    const ChatTemplate chat_template("fuzz", std::string_view(reinterpret_cast<const char*>(data), size));
    if (!is_utf8(chat_template.render(kInput))) __builtin_trap();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (error.kind() == ErrorKind::Internal || message.find('\n') != std::string_view::npos) __builtin_trap();
    if (error.kind() != ErrorKind::Usage && message.size() > 1000) __builtin_trap();
  }
  return 0;
}
