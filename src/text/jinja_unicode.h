// Python's str, as far as it is about characters: lengths and places in code points, white space, case, what can be
// printed. Text is well-formed UTF-8 throughout.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quoted.h"
#include "base/utf8.h"

namespace lockstep::jinja {

// In well-formed UTF-8 every byte but a continuation begins a character.
constexpr bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}
size_t count_characters(std::string_view text);
// The byte at which character `index` begins; text.size() where there are no more.
size_t offset_of(std::string_view text, size_t index);
// The first character and its bytes; text is not empty.
char32_t first_character(std::string_view text, size_t* bytes);
std::u32string to_characters(std::string_view text);

// str.isspace of one character: also what strip() removes and what \s matches.
bool is_space(char32_t c);
// str.splitlines ends a line here.
bool is_line_break(char32_t c);
bool is_printable(char32_t c);
bool is_identifier_start(char32_t c);
bool is_identifier_part(char32_t c);
bool is_word(char32_t c);  // \w

std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

enum class CaseOperation { Lower, Upper, Title, Capitalize, Swap, Fold };
std::string change_case(std::string_view text, CaseOperation operation);

// str.isalpha and its kin, over a whole text.
enum class CharacterTest {
  Alnum,
  Alpha,
  Ascii,
  Decimal,
  Digit,
  Identifier,
  Lower,
  Numeric,
  Printable,
  Space,
  Title,
  Upper
};
bool is_all(std::string_view text, CharacterTest test);

// The first and the last place of a part, in time that is linear in the text.
std::optional<size_t> find_first(std::string_view text, std::string_view part, size_t from = 0);
std::optional<size_t> find_last(std::string_view text, std::string_view part);

// markupsafe.escape
std::string escape_html(std::string_view text);

}  // namespace lockstep::jinja
