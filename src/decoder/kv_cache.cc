// Addresses inside the page pool.
#include "decoder/kv_cache.h"

#include <cassert>

namespace lockstep {

KvCache::KvCache(const ModelSpec& spec, const ShardPlan& plan, int rank, const DecoderOptions& options)
    : options_(options),
      element_(info(options.kv_dtype).block_bytes),
      table_(static_cast<size_t>(options.max_sequences * options.pages_per_sequence), -1),
      pool_(static_cast<size_t>(options.pages * options.page_tokens *
                                plan.ranks[static_cast<size_t>(rank)].kv_values_per_token * element_)) {
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool attention = spec.layers[i].mixer == Mixer::Attention && spec.layers[i].kv_layer < 0;
    const int64_t heads = attention ? plan.layers[i].kv_heads[static_cast<size_t>(rank)].size() : 0;
    const int64_t head_dim = spec.layers[i].head_dim;
    layers_.push_back({page_bytes_, heads, head_dim});
    page_bytes_ += 2 * heads * options.page_tokens * head_dim * element_;
  }
}

void KvCache::set_page(int64_t sequence, int64_t index, int32_t page) {
  assert(0 <= sequence && sequence < options_.max_sequences && 0 <= index && index < options_.pages_per_sequence);
  assert(0 <= page && page < options_.pages);
  table_[static_cast<size_t>(sequence * options_.pages_per_sequence + index)] = page;
}

KvPages KvCache::view(int64_t layer, int64_t sequence) {
  const Layer& numbers = layers_[static_cast<size_t>(layer)];
  KvPages pages;
  pages.dtype = options_.kv_dtype;
  pages.base = pool_.data() + numbers.offset;
  pages.page_bytes = page_bytes_;
  pages.pages = table_.data() + sequence * options_.pages_per_sequence;
  pages.page_tokens = options_.page_tokens;
  pages.kv_heads = numbers.heads;
  pages.head_dim = numbers.head_dim;
  return pages;
}

std::byte* KvCache::slot(int64_t layer, int64_t sequence, int64_t head, int64_t position, bool values) {
  const Layer& numbers = layers_[static_cast<size_t>(layer)];
  const int32_t page =
      table_[static_cast<size_t>(sequence * options_.pages_per_sequence + position / options_.page_tokens)];
  assert(page >= 0);
  const int64_t plane = (values ? numbers.heads : 0) + head;
  const int64_t element = (plane * options_.page_tokens + position % options_.page_tokens) * numbers.head_dim;
  return pool_.data() + page * page_bytes_ + numbers.offset + element * element_;
}

}  // namespace lockstep
