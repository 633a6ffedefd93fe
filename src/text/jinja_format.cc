// format(value, spec).
#include "text/jinja_format.h"

#include <algorithm>
#include <cmath>

#include "text/jinja_numbers.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const auto look = [&](size_t i) { return i < text.size() ? text[i] : '\0'; };
  size_t bytes = 0;
  if (!text.empty()) first_character(text, &bytes);
  if (bytes > 0 && is_align(look(bytes))) {
    spec.field.fill = first_character(text, &bytes);
    spec.field.align = text[bytes];
    spec.has_align = true;
    at = bytes + 1;
  } else if (is_align(look(0))) {
    spec.field.align = text[0];
    spec.has_align = true;
    at = 1;
  }
  if (look(at) == '+' || look(at) == '-' || look(at) == ' ') spec.sign = text[at++];
  if (look(at) == 'z') unsupported("the 'z' of a format");
  if (look(at) == '#') {
    spec.alternate = true;
    ++at;
  }
  if (look(at) == '0') {
    spec.zero = true;
    ++at;
  }
  spec.field.width = format_number(text, &at).value_or(0);
  if (look(at) == ',' || look(at) == '_') spec.grouping = text[at++];
  if (look(at) == '.') {
    ++at;
    spec.precision = format_number(text, &at);
    if (!spec.precision) refuse("a format has a point and no precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) refuse("the format {} cannot be read", in_quotes(text));
  return spec;
}

// "1234567" -> "1,234,567"; in groups of 3 or 4.
std::string grouped(std::string_view digits, char separator, size_t size) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

// Puts the parts of a number in its field; zeros of a "0" width belong to the digits and are grouped with them.
void append_number(const Spec& spec, std::string_view sign, std::string_view base, std::string digits,
                   std::string_view rest, Output& out) {
  const size_t group = spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b' ? 4 : 3;
  FieldWidth field = spec.field;
  if (!spec.has_align) field.align = spec.zero ? '=' : '>';
  if (spec.zero && !spec.has_align) field.fill = '0';
  if (spec.zero && spec.has_align && spec.field.fill == ' ') field.fill = '0';
  const bool zeros_in_digits = spec.grouping != 0 && field.align == '=' && field.fill == '0';
  if (zeros_in_digits) {
    const auto other = static_cast<int64_t>(sign.size() + base.size() + rest.size());
    while (static_cast<int64_t>(grouped(digits, spec.grouping, group).size()) + other < field.width &&
           digits.size() < 200) {
      digits.insert(digits.begin(), '0');
    }
  }
  if (spec.grouping != 0) digits = grouped(digits, spec.grouping, group);
  append_padded(std::string(sign) + std::string(base), digits + std::string(rest), field, out);
}

void append_character(const Spec& spec, int64_t code, Output& out) {
  if (spec.precision) refuse("a precision is not for ints");
  if (spec.sign != 0 || spec.alternate || spec.grouping != 0)
    refuse("the format 'c' has no sign, no '#' and no groups");
  if (code < 0 || code > 0x10FFFF) refuse("{} is no character; the last one is 1114111", code);
  if (code >= 0xD800 && code < 0xE000) unsupported("a lone surrogate, {:#x}", code);
  std::string character;
  append_utf8(character, static_cast<char32_t>(code));
  append_number(spec, "", "", std::move(character), "", out);
}

void append_int(const Spec& spec, int64_t value, Output& out) {
  int base = 10;
  std::string_view prefix;
  switch (spec.type) {
    case 0:
    case 'd':
    case 'n':
      break;
    case 'x':
    case 'X':
      base = 16;
      prefix = spec.type == 'x' ? "0x" : "0X";
      break;
    case 'o':
      base = 8;
      prefix = "0o";
      break;
    case 'b':
      base = 2;
      prefix = "0b";
      break;
    case 'c':
      return append_character(spec, value, out);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case '%':
      return append_float(spec, static_cast<double>(value), out);
    default:
      refuse("the format '{}' is not for ints", spec.type);
  }
  if (spec.precision) refuse("a precision is not for ints");
  if (spec.grouping == ',' && base != 10) refuse("',' is not for this format");
  if (spec.grouping != 0 && spec.type == 'n') refuse("a format groups digits twice");
  append_number(spec, sign_of(spec, value < 0), spec.alternate ? prefix : "",
                int_digits(magnitude(value), base, spec.type == 'X'), "", out);
}

void append_text(const Spec& spec, std::string_view text, Output& out) {
  if (spec.type != 0 && spec.type != 's') refuse("the format '{}' is not for strs", spec.type);
  if (spec.sign != 0 || spec.alternate || spec.grouping != 0) refuse("a format for numbers is used for a str");
  if (spec.has_align && spec.field.align == '=') refuse("'=' aligns no str");
  FieldWidth field = spec.field;
  if (spec.zero && field.fill == ' ') field.fill = '0';
  if (spec.precision) text = text.substr(0, offset_of(text, static_cast<size_t>(*spec.precision)));
  append_padded("", text, field, out);
}

}  // namespace

std::string_view sign_of(const Spec& spec, bool negative) {
  if (negative) return "-";
  return spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
}

void append_float(const Spec& spec, double value, Output& out) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double size = std::fabs(value);
  std::string text;
  const int64_t precision = spec.precision.value_or(6);
  if (precision > kMostPrecision) unsupported("a precision above {}", kMostPrecision);
  if (spec.grouping != 0 && spec.type == 'n') refuse("a format groups digits twice");
  switch (spec.type) {
    case 0:
      if (!spec.precision) {
        text = float_repr(size);
      } else {
        // Like 'g', but with a digit behind the point, and with an exponent one place earlier.
        const auto digits = static_cast<int>(std::max<int64_t>(precision, 1));
        text = float_digits(size, 'g', digits, spec.alternate);
        const double threshold = std::pow(10.0, digits - 1);
        const bool plain = text.find_first_of("e.n") == std::string::npos;
        if (plain && std::isfinite(value) && size >= threshold) {
          text = float_digits(size, 'e', digits - 1, false);
          // 'g' drops zeros at the end.
          const size_t e = text.find('e');
          std::string head = text.substr(0, e);
          if (head.find('.') != std::string::npos) {
            while (head.back() == '0') head.pop_back();
            if (head.back() == '.') head.pop_back();
          }
          text = head + text.substr(e);
        } else if (plain && std::isfinite(value)) {
          text += ".0";
        }
      }
      break;
    case 'n':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': {
      const char kind = spec.type == 'n' ? 'g' : spec.type;
      const bool general = kind == 'g' || kind == 'G';
      text = float_digits(size, kind, static_cast<int>(general ? std::max<int64_t>(precision, 1) : precision),
                          spec.alternate);
      break;
    }
    case '%':
      text = float_digits(size * 100, 'f', static_cast<int>(precision), spec.alternate) + "%";
      break;
    default:
      refuse("the format '{}' is not for floats", spec.type);
  }
  const size_t whole = text.find_first_not_of("0123456789");
  const std::string digits = text.substr(0, whole);
  append_number(spec, sign_of(spec, negative), "", digits, whole == std::string::npos ? "" : text.substr(whole), out);
}

std::optional<int64_t> format_number(std::string_view format, size_t* at) {
  const size_t begin = *at;
  int64_t number = 0;
  for (; *at < format.size() && format[*at] >= '0' && format[*at] <= '9'; ++*at) {
    number = number * 10 + (format[*at] - '0');
    if (number > kMostWidth)
      throw Failure(ErrorKind::DoesNotFit, fmt::format("a format has a number above {}", kMostWidth));
  }
  return *at > begin ? std::optional(number) : std::nullopt;
}

void append_padded(std::string_view prefix, std::string_view text, const FieldWidth& field, Output& out) {
  const auto width = static_cast<int64_t>(count_characters(prefix) + count_characters(text));
  const auto missing = static_cast<size_t>(std::max<int64_t>(field.width - width, 0));
  std::string fill;
  append_utf8(fill, field.fill);
  const size_t left = field.align == '>' ? missing : field.align == '^' ? missing / 2 : 0;
  out.append(left, fill);
  out.append(prefix);
  if (field.align == '=') out.append(missing, fill);
  out.append(text);
  if (field.align != '=') out.append(missing - left, fill);
}

void append_formatted(Runtime& runtime, const Value& value, std::string_view spec, Output& out) {
  if (spec.empty()) return append_str(runtime, value, out);
  const bool is_number = as_float(value).has_value();
  if (!is_number && value.text() == nullptr) refuse("a {} takes no format", type_name(value));
  const Spec parsed = parse_spec(spec);
  if (const Text* text = value.text()) {
    append_text(parsed, text->bytes, out);
  } else if (const auto* number = value.get<double>()) {
    append_float(parsed, *number, out);
  } else {
    append_int(parsed, *as_int(value), out);
  }
}

}  // namespace lockstep::jinja
