// template_lines: reads one JSON object a line, {"template": SOURCE, "input": {"messages": ..., "tools": ..., ...}},
// and writes one a line: {"text": ...} or {"error": ..., "kind": ...}. For tests/parity/template_parity.py. "now" of an
// input is [year, month, day, hour, minute, second, weekday from Sunday, day of the year from 0].
#include <fmt/format.h>

#include <exception>
#include <iostream>
#include <string>

#include "base/error.h"
#include "text/chat_template.h"
#include "text/template_input.h"

int main() {
  std::ios::sync_with_stdio(false);
  std::string source, line;
  std::unique_ptr<const lockstep::ChatTemplate> chat_template;
  try {
    while (std::getline(std::cin, line)) {
      const auto request = nlohmann::ordered_json::parse(line);
      nlohmann::ordered_json answer;
      try {
        const auto& wanted = request.at("template").get_ref<const std::string&>();
        if (chat_template == nullptr || wanted != source) {
          chat_template.reset();
          chat_template = std::make_unique<const lockstep::ChatTemplate>("template", wanted);
          source = wanted;
        }
        answer["text"] = chat_template->render(lockstep::template_input(request.at("input")));
      } catch (const lockstep::Error& error) {
        answer["error"] = error.what();
        answer["kind"] = static_cast<int>(error.kind());
      }
      std::cout << answer.dump() << '\n';
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
