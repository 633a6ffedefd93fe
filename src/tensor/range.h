// A half-open run of whole numbers: leaves, heads, units, vocabulary rows. The name beside it says of what.
#pragma once

#include <cstdint>

namespace lockstep {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

}  // namespace lockstep
