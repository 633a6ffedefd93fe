// How one value fills a field of a format: the mini-language of Python's format(), which printf-like formats use too.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja_runtime.h"

namespace lockstep::jinja {

// What the mini-language can say.
struct FieldWidth {
  int64_t width = 0;
  char align = '<';  // '<', '>', '^'; '=': blanks between sign and digits
  char32_t fill = ' ';
};
struct Spec {
  FieldWidth field;
  bool has_align = false;
  char sign = 0;  // 0: as '-'
  bool alternate = false, zero = false;
  char grouping = 0;
  std::optional<int64_t> precision;
  char type = 0;
};
std::string_view sign_of(const Spec& spec, bool negative);
void append_float(const Spec& spec, double value, Output& out);
constexpr int64_t kMostWidth = 1'000'000;  // of a field; the budget bounds what is made of it
constexpr int64_t kMostPrecision = 1'000;

// Appends format(value, spec).
void append_formatted(Runtime& runtime, const Value& value, std::string_view spec, Output& out);

// Appends the text in a field: sign and base ("-0x") stay in front where align is '='.
void append_padded(std::string_view prefix, std::string_view text, const FieldWidth& field, Output& out);

// A number out of a format, at most 1,000,000. *at moves behind it; nothing: no digit stands there.
std::optional<int64_t> format_number(std::string_view format, size_t* at);

}  // namespace lockstep::jinja
