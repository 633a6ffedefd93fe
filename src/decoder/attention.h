// Softmax attention of one rank over its KV cache: projections, norms of heads, rotation, scores.
#pragma once

#include <vector>

#include "base/aligned_buffer.h"
#include "decoder/kv_cache.h"
#include "decoder/products.h"
#include "decoder/rank_context.h"
#include "decoder/rope_angles.h"

namespace lockstep {

// For the rank's leader thread. Allocates when it is made, and nothing afterwards.
class Attention {
 public:
  explicit Attention(const RankContext& rank);

  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }

  // To be called once a step, before its layers.
  void begin_step(const Batch& batch) { angles_.fill(batch.positions); }
  // One layer. normed: [rows, hidden]; out: [rows, heads_here * head_dim].
  void run(int64_t layer, const Batch& batch, const float* normed, Products& products, float* out);

 private:
  struct Heads;  // one layer's, on this rank

  void project(const Heads& heads, const Batch& batch, const float* normed, Products& products);
  void append(const Heads& heads, const Batch& batch);
  void attend(const Heads& heads, const Batch& batch, float* out);
  void rotate(const Heads& heads, int64_t row);
  void part_query_and_gate(const Heads& heads, int64_t row);

  const RankContext& rank_;
  KvCache cache_;
  RopeAngles angles_;
  AlignedBuffer<float> query_;                  // [max_rows, heads_here * head_dim]
  AlignedBuffer<float> gate_, query_and_gate_;  // the same, and twice that, where a layer has gates
  AlignedBuffer<float> key_, value_;            // [max_rows, kv_heads_here * head_dim]
  AlignedBuffer<float> ones_;                   // [head_dim]: the weights of a norm without weights
  std::vector<AlignedBuffer<float>> scores_;    // [threads]
};

}  // namespace lockstep
