// Rows are divided among the threads up to the cache, (row, head) pairs from there on.
#include "decoder/attention.h"

#include <algorithm>
#include <cstring>

namespace lockstep {

struct Attention::Heads {
  int64_t layer;
  const LayerSpec& numbers;
  int64_t first, count;  // query heads of this rank
  Range kv;              // KV heads of this rank
  int64_t head_dim;
  bool owns;  // has keys and values of its own

  Heads(const RankContext& rank, int64_t index)
      : layer(index),
        numbers(rank.layer(index)),
        first(rank.layer_plan(index).heads.begin(rank.rank) / numbers.head_dim),
        count(rank.layer_plan(index).heads.here(rank.rank) / numbers.head_dim),
        kv(rank.layer_plan(index).kv_heads[static_cast<size_t>(rank.rank)]),
        head_dim(numbers.head_dim),
        owns(numbers.kv_layer < 0) {}
};

Attention::Attention(const RankContext& rank)
    : rank_(rank),
      cache_(rank.spec, rank.plan, rank.rank, rank.options),
      angles_(rank.spec, rank.weights.get(Role::RopeFactors).vector, rank.options.max_rows) {
  int64_t width = 0, gated = 0, kv = 0, head_dim = 0;
  for (size_t i = 0; i < rank.spec.layers.size(); ++i) {
    const LayerSpec& layer = rank.spec.layers[i];
    if (layer.mixer != Mixer::Attention) continue;
    const int64_t here = rank.plan.layers[i].heads.here(rank.rank);
    width = std::max(width, here);
    head_dim = std::max(head_dim, layer.head_dim);
    if (layer.query_gate) gated = std::max(gated, here);
    kv = std::max(kv, rank.plan.layers[i].kv_heads[static_cast<size_t>(rank.rank)].size() * layer.head_dim);
  }
  const auto rows = [&](int64_t columns) {
    return AlignedBuffer<float>(static_cast<size_t>(rank.options.max_rows * columns));
  };
  query_ = rows(width);
  gate_ = rows(gated);
  query_and_gate_ = rows(2 * gated);
  ones_ = AlignedBuffer<float>(static_cast<size_t>(head_dim));
  std::fill_n(ones_.data(), head_dim, 1.0F);
  key_ = rows(kv);
  value_ = rows(kv);
  const int64_t positions = rank.options.pages_per_sequence * rank.options.page_tokens;
  for (int t = 0; t < rank.team.threads(); ++t) scores_.emplace_back(static_cast<size_t>(positions));
}

void Attention::run(int64_t layer, const Batch& batch, const float* normed, Products& products, float* out) {
  const Heads heads(rank_, layer);
  if (heads.count == 0) return;
  project(heads, batch, normed, products);
  append(heads, batch);
  rank_.record_heads(batch, layer, Role::AttnQ, heads.first, heads.count, heads.head_dim, query_.data());
  if (heads.owns) {
    const Role value = heads.numbers.keys_are_values ? Role::AttnK : Role::AttnV;
    rank_.record_heads(batch, layer, Role::AttnK, heads.kv.begin, heads.kv.size(), heads.head_dim, key_.data());
    rank_.record_heads(batch, layer, value, heads.kv.begin, heads.kv.size(), heads.head_dim, value_.data());
  }
  attend(heads, batch, out);
}

void Attention::project(const Heads& heads, const Batch& batch, const float* normed, Products& products) {
  const Zone zone(rank_.options.lane, ZoneName::Qkv, heads.layer);
  const auto product = [&](Role role, Role bias, float* to) {
    return products.column_parallel(rank_.weights.get(role, heads.layer), to,
                                    rank_.weights.get(bias, heads.layer).vector);
  };
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  const Product query =
      product(Role::AttnQ, Role::AttnQBias, heads.numbers.query_gate ? query_and_gate_.data() : query_.data());
  if (!heads.owns) return products.run(normed, rank_.spec.hidden, rows, {query});
  const Product key = product(Role::AttnK, Role::AttnKBias, key_.data());
  if (heads.numbers.keys_are_values) {
    products.run(normed, rank_.spec.hidden, rows, {query, key});
    std::copy_n(key_.data(), rows * heads.kv.size() * heads.head_dim, value_.data());
    return;
  }
  products.run(normed, rank_.spec.hidden, rows, {query, key, product(Role::AttnV, Role::AttnVBias, value_.data())});
}

// Rows of one sequence go to different slots of the cache.
void Attention::append(const Heads& heads, const Batch& batch) {
  const Zone zone(rank_.options.lane, ZoneName::RopeAppend, heads.layer);
  rank_.team.split(static_cast<int64_t>(batch.tokens.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      if (heads.numbers.query_gate) part_query_and_gate(heads, row);
      rotate(heads, row);
      const int64_t sequence = batch.sequences[static_cast<size_t>(row)];
      const int64_t position = batch.positions[static_cast<size_t>(row)];
      for (int64_t head = 0; heads.owns && head < heads.kv.size(); ++head) {
        const int64_t at = (row * heads.kv.size() + head) * heads.head_dim;
        const auto store = [&](const float* from, bool values) {
          rank_.kernels.from_float(rank_.options.kv_dtype, from,
                                   cache_.slot(heads.layer, sequence, head, position, values), heads.head_dim);
        };
        store(key_.data() + at, false);
        store(value_.data() + at, true);
      }
      rank_.group.tick();
    }
  });
}

// A row of the gated query projection holds, head by head, the query and its gate.
void Attention::part_query_and_gate(const Heads& heads, int64_t row) {
  const auto bytes = static_cast<size_t>(heads.head_dim) * sizeof(float);
  for (int64_t head = row * heads.count; head < (row + 1) * heads.count; ++head) {
    const float* from = query_and_gate_.data() + 2 * head * heads.head_dim;
    std::memcpy(query_.data() + head * heads.head_dim, from, bytes);
    std::memcpy(gate_.data() + head * heads.head_dim, from + heads.head_dim, bytes);
  }
}

// Norms of the heads of q and k, if the model has them, and the rotation, if the layer has one.
void Attention::rotate(const Heads& heads, int64_t row) {
  float* const queries = query_.data() + row * heads.count * heads.head_dim;
  float* const keys = key_.data() + row * heads.kv.size() * heads.head_dim;
  const auto norm = [&](Role role, float* x, int64_t count) {
    const float* weight = rank_.weights.get(role, heads.layer).vector;
    if (weight != nullptr) rank_.kernels.rms_norm(x, weight, x, count, heads.head_dim, rank_.spec.norm_eps);
  };
  const int64_t kv_heads = heads.owns ? heads.kv.size() : 0;
  const auto norms = [&] {
    norm(Role::AttnQNorm, queries, heads.count);
    norm(Role::AttnKNorm, keys, kv_heads);
  };
  if (heads.numbers.value_norm) {
    float* const values = value_.data() + row * heads.kv.size() * heads.head_dim;
    rank_.kernels.rms_norm(values, ones_.data(), values, kv_heads, heads.head_dim, rank_.spec.norm_eps);
  }
  if (!heads.numbers.norm_after_rope) norms();
  const RopeSpec& rope = heads.numbers.rope;
  if (rope.rotary > 0) {
    const RopePairs pairs = rope.pairs == RopeSpec::Pairs::Adjacent ? RopePairs::Adjacent : RopePairs::Halves;
    const float* angles = angles_.of(heads.layer, row);
    rank_.kernels.rope(queries, heads.count, heads.head_dim, rope.rotary, angles, pairs);
    rank_.kernels.rope(keys, kv_heads, heads.head_dim, rope.rotary, angles, pairs);
  }
  if (heads.numbers.norm_after_rope) norms();
}

// Every (row, head) by itself; dealt round, since later rows see longer contexts.
void Attention::attend(const Heads& heads, const Batch& batch, float* out) {
  const Zone zone(rank_.options.lane, ZoneName::Attend, heads.layer);
  const LayerSpec& numbers = heads.numbers;
  const int64_t group_size = numbers.heads / numbers.kv_heads;
  const int64_t items = static_cast<int64_t>(batch.tokens.size()) * heads.count;
  rank_.team.run([&](int thread) {
    for (int64_t item = thread; item < items; item += rank_.team.threads()) {
      const int64_t row = item / heads.count;
      const int64_t head = item % heads.count;
      AttendArgs args;
      args.q = query_.data() + item * heads.head_dim;
      args.kv = cache_.view(heads.owns ? heads.layer : numbers.kv_layer, batch.sequences[static_cast<size_t>(row)]);
      args.kv_head = (heads.first + head) / group_size - heads.kv.begin;
      args.length = batch.positions[static_cast<size_t>(row)] + 1;
      args.first = numbers.window == 0 ? 0 : std::max<int64_t>(0, args.length - numbers.window);
      args.scale = numbers.score_scale;
      args.cap = numbers.score_cap;
      args.scores = scores_[static_cast<size_t>(thread)].data();
      args.out = out + item * heads.head_dim;
      rank_.kernels.attend(args);
      if (numbers.query_gate) {
        rank_.kernels.sigmoid_mul(gate_.data() + item * heads.head_dim, args.out, args.out, heads.head_dim);
      }
      rank_.group.tick();
    }
  });
}

}  // namespace lockstep
