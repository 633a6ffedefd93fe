// Cosines and sines of the rotary embedding, for the rows of one step.
#pragma once

#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "model/model.h"

namespace lockstep {

// Layers with the same frequencies share a table; the tables of a model lie side by side in each row.
class RopeAngles {
 public:
  // factors: a checkpoint's own divisors of the frequencies, [rotary / 2], or nullptr.
  RopeAngles(const ModelSpec& spec, const float* factors, int64_t max_rows);

  void fill(std::span<const int32_t> positions);
  // [rotary / 2][2]: cosine, sine.
  const float* of(int64_t layer, int64_t row) const {
    return angles_.data() + row * per_row_ + offsets_[static_cast<size_t>(layer)];
  }

 private:
  struct Table {
    std::vector<double> frequencies;  // radians a position, [rotary / 2]
    double magnitude = 1;             // multiplies cosine and sine
    bool operator==(const Table&) const = default;
  };
  std::vector<Table> tables_;     // no two equal
  std::vector<int64_t> offsets_;  // [layers], floats from the beginning of a row
  int64_t per_row_ = 0;
  AlignedBuffer<float> angles_;  // [max_rows, per_row]
};

}  // namespace lockstep
