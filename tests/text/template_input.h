// The inputs of chat templates as fixtures and parity tests hold them, in JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/chat_template.h"

namespace lockstep {

// {"messages": ..., "tools": ..., "documents": ..., "variables": {...}, "special_tokens": {...},
//  "add_generation_prompt": ..., "now": [year, month, day, hour, minute, second, weekday, day of the year]}; each may
//  be
// missing.
inline ChatInput template_input(const nlohmann::ordered_json& json) {
  ChatInput input;
  const auto copy = [&](const char* key, nlohmann::ordered_json& to) {
    if (json.contains(key)) to = json[key];
  };
  copy("messages", input.messages);
  copy("tools", input.tools);
  copy("documents", input.documents);
  copy("variables", input.variables);
  input.add_generation_prompt = json.value("add_generation_prompt", true);
  if (json.contains("special_tokens")) {
    for (const auto& [name, text] : json["special_tokens"].items()) input.special_tokens[name] = text;
  }
  if (json.contains("now")) {
    const auto& now = json["now"];
    input.now = {};
    input.now.tm_year = now[0].get<int>() - 1900;
    input.now.tm_mon = now[1].get<int>() - 1;
    input.now.tm_mday = now[2];
    input.now.tm_hour = now[3];
    input.now.tm_min = now[4];
    input.now.tm_sec = now[5];
    input.now.tm_wday = now[6];
    input.now.tm_yday = now[7];
  }
  return input;
}

}  // namespace lockstep
