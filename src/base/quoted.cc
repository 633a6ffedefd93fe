// Escaping, one character of UTF-8 at a time.
#include "base/quoted.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/utf8.h"

namespace lockstep {
namespace {

// Code points that would break the line or change how its other characters are shown.
bool is_disruptive(char32_t c) {
  const auto within = [c](char32_t first, char32_t last) { return first <= c && c <= last; };
  return c < 0x20 || within(0x7F, 0x9F)  // controls
         || within(0x2028, 0x2029)       // line and paragraph separator
         || within(0x200E, 0x200F)       // direction marks, and those of the next two ranges
         || within(0x202A, 0x202E) || within(0x2066, 0x2069) || c == 0xFEFF;
}

// What stands for the beginning of the text, `step` bytes of it.
std::string escape(std::string_view text, Utf8Step step) {
  const std::string_view bytes = text.substr(0, step.length);
  if (step.kind != Utf8Kind::Character) {
    std::string hex;
    for (const char byte : bytes) hex += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    return hex;
  }
  const char32_t c = decode_utf8(bytes);
  if (!is_disruptive(c)) return std::string(bytes);
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (c == '\r') return "\\r";
  if (c < 0x80) return fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  return fmt::format("\\u{{{:04x}}}", static_cast<uint32_t>(c));
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    line += escape(text, step);
    text.remove_prefix(step.length);
  }
  return line;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kMostBytes = 80;
  const size_t size = text.size();
  std::string shown = "'";
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    std::string piece = text[0] == '\'' || text[0] == '\\' ? "\\" : "";
    piece += escape(text, step);
    if (shown.size() + piece.size() > kMostBytes + 1) return fmt::format("{}...' ({} bytes)", shown, size);
    shown += piece;
    text.remove_prefix(step.length);
  }
  return shown + "'";
}

}  // namespace lockstep
