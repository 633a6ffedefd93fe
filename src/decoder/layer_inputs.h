// Inputs that each layer takes for itself (Gemma): a part of an embedding of the token, and a projection of the model's
// input. Each rank makes those of a run of layers, and every rank collects all of them once a step.
#pragma once

#include <vector>

#include "base/aligned_buffer.h"
#include "decoder/products.h"
#include "decoder/rank_context.h"

namespace lockstep {

// For the rank's leader thread; of a model without such inputs, nothing. Allocates when it is made, and nothing
// afterwards.
class LayerInputs {
 public:
  explicit LayerInputs(const RankContext& rank);

  bool any() const { return width_ > 0; }

  // Once a step, before its layers. input: [rows, hidden], the residual stream before the first layer.
  void prepare(const Batch& batch, const float* input, Products& products);

  // What a layer takes for a row: [layer_input].
  const float* of(int64_t layer, int64_t row) const;

 private:
  void look_up(const Batch& batch);

  const RankContext& rank_;
  const int64_t width_;             // of one layer
  int64_t rows_ = 0;                // of the step
  std::vector<size_t> counts_;      // [ranks], floats
  AlignedBuffer<float> mine_;       // [max_rows, layers_here, width]
  AlignedBuffer<float> looked_up_;  // the same
  AlignedBuffer<float> all_;        // rank by rank, [rows, layers of the rank, width]
};

}  // namespace lockstep
