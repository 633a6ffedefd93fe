// Text from a file, fit for a one-line message: in quotes, control characters and broken UTF-8 escaped, long text cut.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace lockstep {

inline std::string in_quotes(std::string_view text) {
  constexpr size_t kMostBytes = 80;
  if (text.size() <= kMostBytes) return fmt::format("{:?}", text);
  return fmt::format("{:?}... ({} bytes)", text.substr(0, kMostBytes), text.size());
}

}  // namespace lockstep
