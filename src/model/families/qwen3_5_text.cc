// Qwen3.5 dense text: gated delta nets in most layers, gated attention with partial rotation in every fourth.
#include <array>

#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array<std::string_view, 2> kModelTypes{"qwen3_5_text", "qwen3_5"};
constexpr auto kRules = std::to_array<WeightRule>({
    {AttnQNorm},
    {AttnKNorm},
    {DeltaQ},
    {DeltaK},
    {DeltaV},
    {DeltaConvQ},
    {DeltaConvK},
    {DeltaConvV},
    {DeltaGate},
    {DeltaBeta},
    {DeltaDecay},
    {DeltaLogA},
    {DeltaTimeBias},
    {DeltaNorm},
    {DeltaOutput},
});

// Hugging Face stores the convolution as [channels, 1, taps] and norms less 1; MLX turns both round when it converts.
bool norms_are_less_one(const Config& config, const ModelSpec& spec) {
  for (size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const TensorInfo* taps =
        config.checkpoint().find(config.tensor_name(DeltaConvQ, {DeltaConvQ}, static_cast<int64_t>(layer)));
    if (taps != nullptr) return !taps->shape.empty() && taps->shape.back() != 1;
  }
  return true;
}

ModelSpec read(const Config& config) {
  ModelSpec spec = read_dense(config);
  LayerSpec delta = spec.layers.front();
  delta.mixer = Mixer::GatedDelta;
  delta.heads = config.require_int({"", "linear_num_value_heads"}, 1, kMostWidth);
  delta.kv_heads = read_kv_heads(config, {"", "linear_num_key_heads"}, delta.heads);
  delta.head_dim = config.require_int({"", "linear_value_head_dim"}, 1, kMostWidth);
  delta.key_dim = config.require_int({"", "linear_key_head_dim"}, 1, kMostWidth);
  delta.taps = config.require_int({"", "linear_conv_kernel_dim"}, 2, 64);
  delta.rope.rotary = 0;
  const int64_t period = config.get_int({"", "full_attention_interval"}, 1, kMostWidth).value_or(4);
  const std::vector<bool> attends = full_attention_layers(config, spec.layers.size(), "linear_attention", period);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (attends[i]) {
      spec.layers[i].query_gate = true;
    } else {
      spec.layers[i] = delta;
    }
  }
  spec.norm_offset = norms_are_less_one(config, spec) ? 1 : 0;
  return spec;
}

constexpr Family kFamily = {"qwen3_5_text", {}, kModelTypes, kRules, &read};

}  // namespace

const Family& qwen3_5_text_family() {
  return kFamily;
}

}  // namespace lockstep
