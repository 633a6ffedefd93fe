// What a text may come to while a tokenizer's steps rewrite it. Each may make it longer, over and over, so that time
// and memory need a bound.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/error.h"

namespace lockstep {

class GrowthLimit {
 public:
  // bytes: of the text before the first step.
  explicit GrowthLimit(size_t bytes) : most_(std::min(kMost, kAlways + kGrowth * std::min(bytes, kMost))) {}

  // Throws Error(DoesNotFit) when the text has too many.
  void check(size_t bytes) const {
    if (bytes <= most_) return;
    fail(ErrorKind::DoesNotFit,
         "the text cannot be tokenized: the tokenizer's rules make more than {} bytes of a piece of it, the most that "
         "is allowed for its length",
         most_);
  }

 private:
  static constexpr size_t kMost = size_t{1} << 30;  // as to_normal_form() may take
  static constexpr size_t kGrowth = 64, kAlways = 1024;

  const size_t most_;
};

}  // namespace lockstep
