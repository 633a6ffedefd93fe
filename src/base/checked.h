// Arithmetic on sizes that come from outside: every result is checked before it is used.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

// a * b, or nothing when 64 bits do not hold it.
inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
constexpr int64_t round_up(int64_t a, int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

}  // namespace lockstep
