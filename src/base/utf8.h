// Stepping through bytes that may or may not be UTF-8, by the rule the Unicode standard (section 3.9) and WHATWG share:
// what cannot be a character is cut into maximal subparts, and each of them reads as one U+FFFD.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

enum class Utf8Kind {
  Character,   // well formed
  Invalid,     // the longest beginning of a character that the next byte makes impossible, or one stray byte
  Unfinished,  // the beginning of a character, cut off by the end of the bytes
};

struct Utf8Step {
  Utf8Kind kind;
  size_t length;  // bytes, 1..4
};

// What stands at the beginning of bytes, which must not be empty.
Utf8Step next_utf8(std::string_view bytes);

// Is all of it well formed: shortest forms, no surrogates, at most U+10FFFF?
bool is_utf8(std::string_view text);

// Each part that is no character becomes U+FFFD.
std::string with_replacement_characters(std::string_view bytes);

// Appends the character, at most U+10FFFF.
void append_utf8(std::string& out, char32_t character);

// The character of a step of kind Character.
char32_t decode_utf8(std::string_view character);

}  // namespace lockstep
