// Angles in double precision: a position times a frequency loses bits in float at long contexts.
#include "decoder/rope_angles.h"

#include <cmath>

namespace lockstep {

RopeAngles::RopeAngles(const ModelSpec& spec, const float* factors, int64_t max_rows) {
  for (const LayerSpec& layer : spec.layers) {
    Table table{rope_frequencies(layer.rope), layer.rope.attention_factor};
    if (factors != nullptr && layer.rope.factors) {
      for (size_t i = 0; i < table.frequencies.size(); ++i) table.frequencies[i] /= factors[i];
    }
    int64_t offset = 0;
    auto same = tables_.begin();
    for (; same != tables_.end() && *same != table; ++same)
      offset += 2 * static_cast<int64_t>(same->frequencies.size());
    offsets_.push_back(offset);
    if (same != tables_.end()) continue;
    per_row_ += 2 * static_cast<int64_t>(table.frequencies.size());
    tables_.push_back(std::move(table));
  }
  angles_ = AlignedBuffer<float>(static_cast<size_t>(max_rows * per_row_));
}

void RopeAngles::fill(std::span<const int32_t> positions) {
  float* out = angles_.data();
  for (const int32_t position : positions) {
    for (const Table& table : tables_) {
      for (const double frequency : table.frequencies) {
        const double angle = static_cast<double>(position) * frequency;
        *out++ = static_cast<float>(std::cos(angle) * table.magnitude);
        *out++ = static_cast<float>(std::sin(angle) * table.magnitude);
      }
    }
  }
}

}  // namespace lockstep
