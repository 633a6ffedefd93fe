// Qwen3.5 dense text: gated delta nets in most layers, gated attention with partial rotation in every fourth.
#include <array>

#include "base/error.h"
#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array<std::string_view, 1> kGguf{"qwen35"};
constexpr std::array<std::string_view, 2> kModelTypes{"qwen3_5_text", "qwen3_5"};
constexpr auto kRules = std::to_array<WeightRule>({
    {AttnQNorm},
    {AttnKNorm},
    {FfnNorm, false, "", "blk.{}.post_attention_norm.weight"},
    {DeltaQ},
    {DeltaK},
    {DeltaV},
    {DeltaConvQ},
    {DeltaConvK},
    {DeltaConvV},
    {DeltaGate},
    {DeltaBeta},
    {DeltaDecay},
    {DeltaRate},
    {DeltaTimeBias},
    {DeltaNorm},
    {DeltaOutput},
});

// Hugging Face stores the convolution as [channels, 1, taps] and norms less 1; MLX turns both round when it converts,
// and GGUF has whole norms.
bool norms_are_less_one(const Config& config, const ModelSpec& spec) {
  if (config.gguf()) return false;
  for (size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const TensorInfo* taps =
        config.checkpoint().find(config.tensor_name(DeltaConvQ, {DeltaConvQ}, static_cast<int64_t>(layer)));
    if (taps != nullptr) return !taps->shape.empty() && taps->shape.back() != 1;
  }
  return true;
}

// GGUF has value heads in tiles. As many key heads take turns as a block of the output projection spans.
int64_t tile_run(const Config& config, const LayerSpec& delta, size_t layer) {
  const TensorInfo* output =
      config.checkpoint().find(config.tensor_name(DeltaOutput, {DeltaOutput}, static_cast<int64_t>(layer)));
  if (!config.gguf() || output == nullptr || delta.heads == delta.kv_heads) return 0;
  const int64_t block = info(output->dtype).block_elements;
  int64_t run = 1;
  while (run < delta.kv_heads && (delta.kv_heads % run != 0 || run * delta.head_dim % block != 0)) ++run;
  return run;
}

ModelSpec read(const Config& config) {
  ModelSpec spec = read_dense(config);
  LayerSpec delta = spec.layers.front();
  delta.mixer = Mixer::GatedDelta;
  delta.heads = config.require_int({"ssm.time_step_rank", "linear_num_value_heads"}, 1, kMostWidth);
  delta.kv_heads = read_kv_heads(config, {"ssm.group_count", "linear_num_key_heads"}, delta.heads);
  delta.key_dim = config.require_int({"ssm.state_size", "linear_key_head_dim"}, 1, kMostWidth);
  if (config.gguf()) {
    const Key width{"ssm.inner_size", ""};
    const int64_t values = config.require_int(width, 1, kMostWidth);
    if (values % delta.heads != 0) {
      fail(ErrorKind::Malformed, "{}: {} is {}; it must be a multiple of the {} value heads", config.file(),
           config.name(width), values, delta.heads);
    }
    delta.head_dim = values / delta.heads;
  } else {
    delta.head_dim = config.require_int({"", "linear_value_head_dim"}, 1, kMostWidth);
  }
  delta.taps = config.require_int({"ssm.conv_kernel", "linear_conv_kernel_dim"}, 2, 64);
  delta.rope.rotary = 0;
  const Key period{"full_attention_interval", "full_attention_interval"};
  const std::vector<bool> attends = full_attention_layers(config, spec.layers.size(), "linear_attention", period, 4);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (attends[i]) {
      spec.layers[i].query_gate = true;
    } else {
      const int64_t ffn = spec.layers[i].ffn;
      spec.layers[i] = delta;
      spec.layers[i].ffn = ffn;
      spec.layers[i].tile_run = tile_run(config, delta, i);
    }
  }
  spec.norm_offset = norms_are_less_one(config, spec) ? 1 : 0;
  spec.rates_are_logs = !config.gguf();
  return spec;
}

constexpr auto kDefaults = std::to_array<Default>({
    {"hidden_size", 4096},
    {"intermediate_size", 12288},
    {"num_hidden_layers", 32},
    {"num_attention_heads", 16},
    {"num_key_value_heads", 4},
    {"head_dim", 256},
    {"max_position_embeddings", 32768},
    {"rms_norm_eps", 1e-6},
    {"partial_rotary_factor", 0.25},
    {"linear_conv_kernel_dim", 4},
    {"linear_key_head_dim", 128},
    {"linear_value_head_dim", 128},
    {"linear_num_key_heads", 16},
    {"linear_num_value_heads", 32},
});
constexpr Family kFamily = {"qwen3_5_text", kGguf, kModelTypes, kRules, &read, kDefaults};

}  // namespace

const Family& qwen3_5_text_family() {
  return kFamily;
}

}  // namespace lockstep
