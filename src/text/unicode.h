// What characters are, and Unicode's normal forms, as Hugging Face tokenizers has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

bool is_white_space(char32_t c);      // the property White_Space
bool is_word(char32_t c);             // letters, marks, decimal digits, connectors, joiners
bool is_numeric(char32_t c);          // of the general categories Nd, Nl, No
bool is_punctuation(char32_t c);      // of the general categories P*, or ASCII that is no letter, digit or control
bool is_mark(char32_t c);             // of the general categories M*
bool is_nonspacing_mark(char32_t c);  // Mn
bool is_other(char32_t c);            // Cc, Cf, Co
bool is_chinese(char32_t c);          // the blocks that BERT puts spaces around
// The script that sets words of mixed writing apart, as a number: Hiragana and Katakana are Han; none has the space,
// nor a character that Unicode 9.0 does not know.
std::optional<int32_t> script_of(char32_t c);
// Appends the lower case of one character, whatever stands beside it.
void append_lower_case(std::string& out, char32_t c);

// Bytes of the extended grapheme cluster (Unicode Standard Annex #29) that text, valid UTF-8 and not empty, begins
// with.
size_t first_grapheme(std::string_view text);

enum class NormalForm : uint8_t { C, D, KC, KD };
// text is valid UTF-8 of less than 2^30 bytes. The work is at most length x log(length).
std::string to_normal_form(std::string_view text, NormalForm form);

struct Character {
  char32_t code;
  size_t length;  // bytes
};

// The character at the beginning of valid UTF-8, which is not empty.
inline Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const auto tail = [&](size_t i) { return byte(i) & 0x3F; };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | tail(1), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
  return {(lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

// Likewise the last.
inline Character last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return first_character(text.substr(begin));
}

// Calls use(code, bytes) for every character of valid UTF-8.
template <class Use>
void for_each_character(std::string_view text, Use use) {
  while (!text.empty()) {
    const Character c = first_character(text);
    use(c.code, text.substr(0, c.length));
    text.remove_prefix(c.length);
  }
}

}  // namespace lockstep
