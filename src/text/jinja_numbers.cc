// Python's float() and int() take more than C's (underscores, digits of all scripts) and less (no hexadecimal floats),
// so text is brought into plain form first.
#include "text/jinja_numbers.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja_failure.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

// Without white space around, digits as ASCII; "" where a character or an underscore stands where none may.
std::string plain_number(std::string_view text) {
  // Of ASCII, CPython strips what C calls white space, which is less than what Unicode does.
  const bool ascii = std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) {
    constexpr std::string_view kSpace = " \t\n\v\f\r";
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  } else {
    text = strip_right(strip_left(text));
  }
  std::string plain;
  bool after_underscore = false, after_digit = false;
  while (!text.empty()) {
    size_t bytes = 0;
    const char32_t c = first_character(text, &bytes);
    text.remove_prefix(bytes);
    const int32_t digit = u_charDigitValue(static_cast<UChar32>(c));
    if (c == '_') {
      if (!after_digit || after_underscore) return "";
      after_underscore = true;
      continue;
    }
    const bool is_letter = c < 0x80 && std::isalpha(static_cast<int>(c)) != 0;
    if (after_underscore && digit < 0 && !is_letter) return "";
    if (digit < 0 && c >= 0x80) return "";
    plain += digit >= 0 ? static_cast<char>('0' + digit) : static_cast<char>(c);
    after_digit = digit >= 0 || is_letter;
    after_underscore = false;
  }
  return after_underscore ? "" : plain;
}

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  const auto [end, _] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view written(buffer.data(), static_cast<size_t>(end - buffer.data()));
  const size_t e = written.find('e');
  int exponent = 0;
  std::from_chars(written.data() + e + (written[e + 1] == '+' ? 2 : 1), written.data() + written.size(), exponent);
  std::string digits(written.substr(0, e));
  const bool negative = digits[0] == '-';
  std::erase_if(digits, [](char c) { return !is_ascii_digit(c); });
  std::string text = negative ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    text += digits[0];
    if (count > 1) text += '.';
    text += std::string_view(digits).substr(1);
    return text + fmt::format("e{}{:02d}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return text + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) return text + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  return text + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

std::string float_digits(double value, char kind, int precision, bool alternate) {
  const bool upper = kind == 'E' || kind == 'F' || kind == 'G';
  if (std::isnan(value)) return upper ? "NAN" : "nan";
  if (std::isinf(value)) return upper ? (value < 0 ? "-INF" : "INF") : (value < 0 ? "-inf" : "inf");
  std::string format = alternate ? "{:#." : "{:.";
  format += fmt::format("{}{}}}", precision, kind);
  return fmt::format(fmt::runtime(format), value);
}

double round_float(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 400) return value;
  if (digits < -400) return std::copysign(0.0, value);
  // printf rounds the exact number, halves to even; that is what Python does.
  if (digits >= 0) return std::strtod(fmt::format("{:.{}f}", value, digits).c_str(), nullptr);
  const auto places = static_cast<size_t>(-digits);
  const std::string whole = fmt::format("{:.0f}", std::trunc(std::fabs(value)));
  const bool fraction = std::trunc(value) != value;
  const std::string padded = std::string(places + 1 > whole.size() ? places + 1 - whole.size() : 0, '0') + whole;
  std::string head = padded.substr(0, padded.size() - places);
  const std::string tail = padded.substr(padded.size() - places);
  std::string half(places, '0');
  half[0] = '5';
  const bool up = tail > half || (tail == half && (fraction || (head.back() - '0') % 2 == 1));
  const double kept = std::strtod((head + std::string(places, '0')).c_str(), nullptr);
  const double step = std::strtod(fmt::format("1{}", std::string(places, '0')).c_str(), nullptr);
  return std::copysign(up ? kept + step : kept, value);
}

std::optional<int64_t> parse_int(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const std::string plain = plain_number(text);
  std::string_view digits = plain;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.size() >= 2 && digits[0] == '0') {
    const char kind = static_cast<char>(digits[1] | 0x20);
    const int64_t named = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      base = named;
      digits.remove_prefix(2);
    }
  }
  if (base == 0) {
    const bool zeros = std::ranges::all_of(digits, [](char c) { return c == '0'; });
    if (digits.size() > 1 && digits[0] == '0' && !zeros) return std::nullopt;
    base = 10;
  }
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size, static_cast<int>(base));
  if (error == std::errc::invalid_argument || end != digits.data() + digits.size()) return std::nullopt;
  const uint64_t most = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (error != std::errc() || size > most) unsupported("an integer has more than 64 bits");
  return static_cast<int64_t>(negative ? 0 - size : size);
}

std::optional<double> parse_float(std::string_view text) {
  const std::string plain = plain_number(text);
  std::string_view rest = plain;
  if (rest.starts_with('-') || rest.starts_with('+')) rest.remove_prefix(1);
  std::string lower(rest);
  std::ranges::transform(lower, lower.begin(), [](char c) { return static_cast<char>(c | 0x20); });
  const double sign = plain.starts_with('-') ? -1.0 : 1.0;
  if (lower == "inf" || lower == "infinity") return sign * HUGE_VAL;
  if (lower == "nan") return std::nan("");
  // What remains is digits, one point, one exponent.
  const auto skip_digits = [&] {
    const size_t before = rest.size();
    while (!rest.empty() && is_ascii_digit(rest[0])) rest.remove_prefix(1);
    return before - rest.size();
  };
  size_t digits = skip_digits();
  if (!rest.empty() && rest[0] == '.') {
    rest.remove_prefix(1);
    digits += skip_digits();
  }
  if (digits == 0) return std::nullopt;
  if (!rest.empty() && (rest[0] == 'e' || rest[0] == 'E')) {
    rest.remove_prefix(1);
    if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);
    if (skip_digits() == 0) return std::nullopt;
  }
  if (!rest.empty()) return std::nullopt;
  return std::strtod(plain.c_str(), nullptr);
}

int64_t float_to_int(double value) {
  if (std::isnan(value) || std::isinf(value)) refuse("{} has no whole number", float_repr(value));
  const double whole = std::trunc(value);
  if (whole < -0x1p63 || whole >= 0x1p63) unsupported("an integer has more than 64 bits");
  return static_cast<int64_t>(whole);
}

int compare_int_float(int64_t left, double right) {
  if (right >= 0x1p63) return -1;
  if (right < -0x1p63) return 1;
  const auto whole = static_cast<int64_t>(std::trunc(right));
  if (left != whole) return left < whole ? -1 : 1;
  const double fraction = right - std::trunc(right);
  return fraction > 0 ? -1 : fraction < 0 ? 1 : 0;
}

std::string int_digits(uint64_t value, int base, bool upper) {
  std::array<char, 65> buffer;
  const auto [end, _] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, base);
  std::string text(buffer.data(), end);
  if (upper) std::ranges::transform(text, text.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

}  // namespace lockstep::jinja
