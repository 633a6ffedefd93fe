// The gated delta net of one rank (arXiv 2412.06464): a causal convolution, then a matrix of state for each value head
// that every token decays, corrects and reads.
#pragma once

#include <vector>

#include "base/aligned_buffer.h"
#include "decoder/products.h"
#include "decoder/rank_context.h"

namespace lockstep {

// The layers of this kind of one model, with the state of every sequence. For the rank's leader thread; allocates when
// it is made, and nothing afterwards.
class GatedDelta {
 public:
  explicit GatedDelta(const RankContext& rank);

  // One layer over the rows of a step. normed: [rows, hidden]; out: [rows, value_heads_here * head_dim]. A row at
  // position 0 begins a sequence: its state is zero before.
  void run(int64_t layer, const Batch& batch, const float* normed, Products& products, float* out);

  int64_t bytes() const { return static_cast<int64_t>(state_.bytes()); }

 private:
  // Where a layer's state lies, in floats from the beginning of a sequence's.
  struct Place {
    int64_t taps = 0;      // of q, k, v one after another: [taps - 1, channels]
    int64_t matrices = 0;  // [value_heads_here, head_dim, key_dim]
  };
  struct Layer;  // one layer's numbers on this rank

  void convolve(const Layer& layer, const Batch& batch, float* x, int64_t channels, const float* taps, int64_t place);
  void recur(const Layer& layer, const Batch& batch, float* out);

  const RankContext& rank_;
  std::vector<Place> places_;   // [layers]
  int64_t per_sequence_ = 0;    // floats
  AlignedBuffer<float> state_;  // [max_sequences, per_sequence]

  AlignedBuffer<float> query_, key_;            // [max_rows, key_heads_here * key_dim]
  AlignedBuffer<float> value_, gate_;           // [max_rows, value_heads_here * head_dim]
  AlignedBuffer<float> beta_, decay_;           // [max_rows, value_heads_here]
  AlignedBuffer<float> query_unit_, key_unit_;  // [key_dim]: what a norm multiplies with to give unit length
};

}  // namespace lockstep
