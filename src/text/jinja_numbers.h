// Numbers as Python reads and writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::jinja {

// repr(): the shortest digits that give the number again.
std::string float_repr(double value);
// One of "eEfFgG", and the "%" of format(): as C's printf with the precision, but "inf" and "nan" by Python's names.
// alternate: "#".
std::string float_digits(double value, char kind, int precision, bool alternate);
// round(value, digits)
double round_float(double value, int64_t digits);

// int(text, base) and float(text); nothing where Python raises ValueError. Throws Failure above 64 bits.
std::optional<int64_t> parse_int(std::string_view text, int64_t base);
std::optional<double> parse_float(std::string_view text);

// The whole number that a float is when its fraction is cut off. Throws Failure when it has none.
int64_t float_to_int(double value);
// Exactly: below, equal to or above 0 as left is less than, equal to or more than right. Not for NaN.
int compare_int_float(int64_t left, double right);

// In a base from 2 to 16.
std::string int_digits(uint64_t value, int base, bool upper);
inline uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

}  // namespace lockstep::jinja
