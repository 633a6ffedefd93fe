// Pages of keys and values of one rank. A page holds `page_tokens` tokens of one sequence in every layer.
#pragma once

#include <vector>

#include "base/aligned_buffer.h"
#include "decoder/decoder.h"
#include "kernels/kernels.h"
#include "plan/plan.h"

namespace lockstep {

// Layout of a page: layer by layer, keys [kv_heads_here, page_tokens, head_dim], then values the same.
class KvCache {
 public:
  KvCache(const ModelSpec& spec, const ShardPlan& plan, int rank, const DecoderOptions& options);

  void set_page(int64_t sequence, int64_t index, int32_t page);
  // The cache of one layer and sequence, as the attention kernel reads it.
  KvPages view(int64_t layer, int64_t sequence);
  // Where position `position` of a head begins; the keys, or with `values` the values.
  std::byte* slot(int64_t layer, int64_t sequence, int64_t head, int64_t position, bool values);
  int64_t bytes() const { return static_cast<int64_t>(pool_.bytes()); }

 private:
  struct Layer {
    int64_t offset = 0;  // in a page, bytes
    int64_t heads = 0;
    int64_t head_dim = 0;
  };
  DecoderOptions options_;
  int64_t element_ = 0;  // bytes
  int64_t page_bytes_ = 0;
  std::vector<Layer> layers_;
  std::vector<int32_t> table_;  // [max_sequences, pages_per_sequence]
  AlignedBuffer<std::byte> pool_;
};

}  // namespace lockstep
