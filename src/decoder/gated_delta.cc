// Channels are divided among the threads for the convolution, value heads for the recurrence; within each, rows come in
// the order of the batch, so that nothing depends on the number of threads, ranks or rows of a step.
#include "decoder/gated_delta.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lockstep {
namespace {

constexpr float kUnitEps = 1e-6F;  // added to the squared length of q and k

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}
float softplus(float x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

}  // namespace

struct GatedDelta::Layer {
  const LayerSpec& numbers;
  Place place;
  int64_t index;
  int64_t first_value_head, value_heads;  // of this rank
  Range key_heads;

  int64_t key_channels() const { return key_heads.size() * numbers.key_dim; }
  int64_t value_channels() const { return value_heads * numbers.head_dim; }
};

GatedDelta::GatedDelta(const RankContext& context)
    : rank_(context),
      per_sequence_(context.plan.ranks[static_cast<size_t>(context.rank)].state_values),
      state_(static_cast<size_t>(context.options.max_sequences * per_sequence_)) {
  const ModelSpec& spec = context.spec;
  const ShardPlan& plan = context.plan;
  const int rank = context.rank;
  int64_t keys = 0, values = 0, heads = 0, key_dim = 0, offset = 0;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    Place place;
    if (layer.mixer == Mixer::GatedDelta) {
      const int64_t value_channels = plan.layers[i].heads.here(rank);
      const int64_t key_channels = plan.layers[i].kv_heads[static_cast<size_t>(rank)].size() * layer.key_dim;
      place.taps = offset;
      place.matrices = offset + (layer.taps - 1) * (2 * key_channels + value_channels);
      offset = place.matrices + value_channels * layer.key_dim;
      keys = std::max(keys, key_channels);
      values = std::max(values, value_channels);
      heads = std::max(heads, value_channels / layer.head_dim);
      key_dim = layer.key_dim;
    }
    places_.push_back(place);
  }
  const auto rows = [&](int64_t width) {
    return AlignedBuffer<float>(static_cast<size_t>(context.options.max_rows * width));
  };
  query_ = rows(keys);
  key_ = rows(keys);
  value_ = rows(values);
  gate_ = rows(values);
  beta_ = rows(heads);
  decay_ = rows(heads);
  // An RMS norm divides by the length over sqrt(key_dim); the query is scaled by 1 / sqrt(key_dim) on top.
  query_unit_ = AlignedBuffer<float>(static_cast<size_t>(key_dim));
  key_unit_ = AlignedBuffer<float>(static_cast<size_t>(key_dim));
  const double width = static_cast<double>(std::max<int64_t>(key_dim, 1));
  std::fill_n(query_unit_.data(), key_dim, static_cast<float>(1 / width));
  std::fill_n(key_unit_.data(), key_dim, static_cast<float>(1 / std::sqrt(width)));
}

void GatedDelta::run(int64_t layer_index, const Batch& batch, const float* normed, Products& products, float* out) {
  const LayerPlan& divided = rank_.layer_plan(layer_index);
  const LayerSpec& numbers = rank_.layer(layer_index);
  const Layer layer{numbers,
                    places_[static_cast<size_t>(layer_index)],
                    layer_index,
                    divided.heads.begin(rank_.rank) / numbers.head_dim,
                    divided.heads.here(rank_.rank) / numbers.head_dim,
                    divided.kv_heads[static_cast<size_t>(rank_.rank)]};
  if (layer.value_heads == 0) return;
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  const auto product = [&](Role role, float* to) {
    return products.column_parallel(rank_.weights.get(role, layer_index), to);
  };
  products.run(normed, rank_.spec.hidden, rows,
               {product(Role::DeltaQ, query_.data()), product(Role::DeltaK, key_.data()),
                product(Role::DeltaV, value_.data()), product(Role::DeltaGate, gate_.data()),
                product(Role::DeltaBeta, beta_.data()), product(Role::DeltaDecay, decay_.data())});
  const auto taps = [&](Role role) { return rank_.weights.get(role, layer_index).vector; };
  int64_t place = layer.place.taps;
  convolve(layer, batch, query_.data(), layer.key_channels(), taps(Role::DeltaConvQ), place);
  place += (numbers.taps - 1) * layer.key_channels();
  convolve(layer, batch, key_.data(), layer.key_channels(), taps(Role::DeltaConvK), place);
  place += (numbers.taps - 1) * layer.key_channels();
  convolve(layer, batch, value_.data(), layer.value_channels(), taps(Role::DeltaConvV), place);
  const float eps = kUnitEps / static_cast<float>(numbers.key_dim);
  rank_.team.split(rows * layer.key_heads.size(), 1, [&](int64_t begin, int64_t end, int) {
    float* q = query_.data() + begin * numbers.key_dim;
    float* k = key_.data() + begin * numbers.key_dim;
    rank_.kernels.rms_norm(q, query_unit_.data(), q, end - begin, numbers.key_dim, eps);
    rank_.kernels.rms_norm(k, key_unit_.data(), k, end - begin, numbers.key_dim, eps);
    rank_.group.tick();
  });
  recur(layer, batch, out);
}

// x: [rows, channels], in place: silu(sum over taps of weight * input), the last tap being the row itself. The inputs
// before the step are kept at `place` of the row's sequence, the oldest first.
void GatedDelta::convolve(const Layer& layer, const Batch& batch, float* x, int64_t channels, const float* taps,
                          int64_t place) {
  const int64_t before = layer.numbers.taps - 1;
  rank_.team.split(channels, 16, [&](int64_t begin, int64_t end, int) {
    for (size_t row = 0; row < batch.tokens.size(); ++row) {
      float* past = state_.data() + batch.sequences[row] * per_sequence_ + place;  // [before, channels]
      float* now = x + static_cast<int64_t>(row) * channels;
      if (batch.positions[row] == 0) {
        for (int64_t tap = 0; tap < before; ++tap)
          std::fill(past + tap * channels + begin, past + tap * channels + end, 0.0F);
      }
      for (int64_t channel = begin; channel < end; ++channel) {
        const float input = now[channel];
        const float* weight = taps + channel * layer.numbers.taps;
        float sum = 0;
        for (int64_t tap = 0; tap < before; ++tap) sum += weight[tap] * past[tap * channels + channel];
        sum += weight[before] * input;
        for (int64_t tap = 0; tap + 1 < before; ++tap)
          past[tap * channels + channel] = past[(tap + 1) * channels + channel];
        past[(before - 1) * channels + channel] = input;
        now[channel] = sum * sigmoid(sum);
      }
      rank_.group.tick();
    }
  });
}

void GatedDelta::recur(const Layer& layer, const Batch& batch, float* out) {
  const LayerSpec& numbers = layer.numbers;
  const int64_t key_dim = numbers.key_dim, head_dim = numbers.head_dim;
  const float* rates = rank_.weights.get(Role::DeltaRate, layer.index).vector;
  const float* time_bias = rank_.weights.get(Role::DeltaTimeBias, layer.index).vector;
  const float* norm = rank_.weights.get(Role::DeltaNorm, layer.index).vector;
  rank_.team.split(layer.value_heads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t head = begin; head < end; ++head) {
      const int64_t key_head = key_head_of(numbers, layer.first_value_head + head) - layer.key_heads.begin;
      for (size_t i = 0; i < batch.tokens.size(); ++i) {
        const auto row = static_cast<int64_t>(i);
        float* state =
            state_.data() + batch.sequences[i] * per_sequence_ + layer.place.matrices + head * head_dim * key_dim;
        if (batch.positions[i] == 0) std::fill_n(state, head_dim * key_dim, 0.0F);
        const int64_t scalar = row * layer.value_heads + head;
        float* result = out + scalar * head_dim;
        DeltaStepArgs args;
        args.state = state;
        args.key_dim = key_dim;
        args.value_dim = head_dim;
        args.q = query_.data() + (row * layer.key_heads.size() + key_head) * key_dim;
        args.k = key_.data() + (row * layer.key_heads.size() + key_head) * key_dim;
        args.v = value_.data() + scalar * head_dim;
        args.keep = std::exp(rates[head] * softplus(decay_[static_cast<size_t>(scalar)] + time_bias[head]));
        args.write = sigmoid(beta_[static_cast<size_t>(scalar)]);
        args.out = result;
        rank_.kernels.delta_step(args);
        rank_.kernels.rms_norm(result, norm, result, 1, head_dim, rank_.spec.norm_eps);
        rank_.kernels.silu_mul(gate_.data() + scalar * head_dim, result, result, head_dim);
        rank_.group.tick();
      }
    }
  });
}

}  // namespace lockstep
