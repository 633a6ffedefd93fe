// Characters by ICU; the rules of Python's str methods by hand, for they are not ICU's: str.title() knows no words,
// only runs of letters that have case.
#include "text/jinja_unicode.h"

#include <string.h>
#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace lockstep::jinja {
namespace {

constexpr char32_t kSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;
constexpr char32_t kSmallSigma = 0x3C3;

bool has(char32_t c, UProperty property) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), property) != 0;
}
bool is_cased(char32_t c) {
  return has(c, UCHAR_CASED);
}
bool is_case_ignorable(char32_t c) {
  return has(c, UCHAR_CASE_IGNORABLE);
}
bool is_lower(char32_t c) {
  return has(c, UCHAR_LOWERCASE);
}
bool is_upper(char32_t c) {
  return has(c, UCHAR_UPPERCASE);
}
bool is_title(char32_t c) {
  return u_charType(static_cast<UChar32>(c)) == U_TITLECASE_LETTER;
}
bool is_decimal(char32_t c) {
  return u_charType(static_cast<UChar32>(c)) == U_DECIMAL_DIGIT_NUMBER;
}
int numeric_type(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE);
}
bool is_digit(char32_t c) {
  return numeric_type(c) == U_NT_DECIMAL || numeric_type(c) == U_NT_DIGIT;
}
bool is_numeric(char32_t c) {
  return numeric_type(c) != U_NT_NONE;
}
bool is_alpha(char32_t c) {
  return (U_MASK(u_charType(static_cast<UChar32>(c))) & U_GC_L_MASK) != 0;
}

// The full mapping of one character, which may be several.
void append_mapped(std::string& out, char32_t c, CaseOperation operation) {
  if (c < 0x80) {
    const char byte = static_cast<char>(c);
    const bool lower = operation == CaseOperation::Lower || operation == CaseOperation::Fold;
    if (lower)
      out += byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte;
    else
      out += byte >= 'a' && byte <= 'z' ? static_cast<char>(byte - 32) : byte;
    return;
  }
  std::string from;
  append_utf8(from, c);
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode error = U_ZERO_ERROR;
  switch (operation) {
    case CaseOperation::Lower:
      icu::CaseMap::utf8ToLower("", 0, from, sink, nullptr, error);
      break;
    case CaseOperation::Fold:
      icu::CaseMap::utf8Fold(0, from, sink, nullptr, error);
      break;
    case CaseOperation::Upper:
      icu::CaseMap::utf8ToUpper("", 0, from, sink, nullptr, error);
      break;
    default:
      icu::CaseMap::utf8ToTitle("", U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_BREAK_ADJUSTMENT, nullptr, from, sink,
                                nullptr, error);
  }
  if (U_FAILURE(error)) fail(ErrorKind::Internal, "Unicode case mapping failed: {}", u_errorName(error));
}

// A capital sigma at the end of a word has its own small letter.
bool is_final_sigma(std::u32string_view text, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

void append_lower(std::string& out, std::u32string_view text, size_t at) {
  if (text[at] == kSigma)
    append_utf8(out, is_final_sigma(text, at) ? kFinalSigma : kSmallSigma);
  else
    append_mapped(out, text[at], CaseOperation::Lower);
}

bool is_title_cased(std::u32string_view text) {
  bool cased = false, previous_cased = false;
  for (const char32_t c : text) {
    if (is_upper(c) || is_title(c)) {
      if (previous_cased) return false;
      previous_cased = cased = true;
    } else if (is_lower(c)) {
      if (!previous_cased) return false;
      cased = true;
    } else {
      previous_cased = false;
    }
  }
  return cased;
}

}  // namespace

size_t count_characters(std::string_view text) {
  return text.size() - static_cast<size_t>(std::ranges::count_if(text, is_continuation));
}

size_t offset_of(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) {
    ++at;
    while (at < text.size() && is_continuation(text[at])) ++at;
  }
  return at;
}

char32_t first_character(std::string_view text, size_t* bytes) {
  const Character first = lockstep::first_character(text);
  *bytes = first.length;
  return first.code;
}

std::u32string to_characters(std::string_view text) {
  std::u32string characters;
  characters.reserve(text.size());
  while (!text.empty()) {
    size_t bytes = 0;
    characters += first_character(text, &bytes);
    text.remove_prefix(bytes);
  }
  return characters;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  constexpr uint32_t kNot = U_GC_C_MASK | U_GC_Z_MASK;  // controls, formats, surrogates, private, unassigned; blanks
  return (U_MASK(u_charType(static_cast<UChar32>(c))) & kNot) == 0;
}

bool is_identifier_start(char32_t c) {
  return c == '_' || has(c, UCHAR_XID_START);
}
bool is_identifier_part(char32_t c) {
  return has(c, UCHAR_XID_CONTINUE);
}
bool is_word(char32_t c) {
  return c == '_' || is_alpha(c) || is_numeric(c);
}

std::string_view strip_left(std::string_view text) {
  while (!text.empty()) {
    size_t bytes = 0;
    if (!is_space(first_character(text, &bytes))) break;
    text.remove_prefix(bytes);
  }
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && is_continuation(text[at])) --at;
    size_t bytes = 0;
    if (!is_space(first_character(text.substr(at), &bytes))) break;
    text = text.substr(0, at);
  }
  return text;
}

std::string change_case(std::string_view text, CaseOperation operation) {
  const std::u32string characters = to_characters(text);
  std::string out;
  out.reserve(text.size());
  bool previous_cased = false;
  for (size_t i = 0; i < characters.size(); ++i) {
    const char32_t c = characters[i];
    switch (operation) {
      case CaseOperation::Lower:
        append_lower(out, characters, i);
        break;
      case CaseOperation::Upper:
      case CaseOperation::Fold:
        append_mapped(out, c, operation);
        break;
      case CaseOperation::Capitalize:
        if (i == 0)
          append_mapped(out, c, CaseOperation::Title);
        else
          append_lower(out, characters, i);
        break;
      case CaseOperation::Title:
        if (previous_cased)
          append_lower(out, characters, i);
        else
          append_mapped(out, c, CaseOperation::Title);
        previous_cased = is_cased(c);
        break;
      case CaseOperation::Swap:
        if (is_upper(c))
          append_lower(out, characters, i);
        else if (is_lower(c))
          append_mapped(out, c, CaseOperation::Upper);
        else
          append_utf8(out, c);
        break;
    }
  }
  return out;
}

bool is_all(std::string_view text, CharacterTest test) {
  const std::u32string characters = to_characters(text);
  const auto all = [&](auto holds) { return !characters.empty() && std::ranges::all_of(characters, holds); };
  // Some character has case, and none the other one.
  const auto all_cased = [&](auto wanted, auto other) {
    return std::ranges::any_of(characters, wanted) &&
           std::ranges::none_of(characters, [&](char32_t c) { return other(c) || is_title(c); });
  };
  switch (test) {
    case CharacterTest::Alnum:
      return all([](char32_t c) { return is_alpha(c) || is_numeric(c); });
    case CharacterTest::Alpha:
      return all(is_alpha);
    case CharacterTest::Ascii:
      return std::ranges::all_of(characters, [](char32_t c) { return c < 0x80; });
    case CharacterTest::Decimal:
      return all(is_decimal);
    case CharacterTest::Digit:
      return all(is_digit);
    case CharacterTest::Identifier:
      return !characters.empty() && is_identifier_start(characters[0]) &&
             std::ranges::all_of(characters, is_identifier_part);
    case CharacterTest::Lower:
      return all_cased(is_lower, is_upper);
    case CharacterTest::Numeric:
      return all(is_numeric);
    case CharacterTest::Printable:
      return std::ranges::all_of(characters, is_printable);
    case CharacterTest::Space:
      return all(is_space);
    case CharacterTest::Title:
      return is_title_cased(characters);
    case CharacterTest::Upper:
      return all_cased(is_upper, is_lower);
  }
  return false;
}

// memmem is linear in the text, which std::string::find is not.
std::optional<size_t> find_first(std::string_view text, std::string_view part, size_t from) {
  if (part.size() > text.size() || from > text.size() - part.size()) return std::nullopt;
  if (part.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::nullopt;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

std::optional<size_t> find_last(std::string_view text, std::string_view part) {
  const std::string backwards(text.rbegin(), text.rend()), part_backwards(part.rbegin(), part.rend());
  const auto found = find_first(backwards, part_backwards);
  if (!found) return std::nullopt;
  return text.size() - *found - part.size();
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace lockstep::jinja
