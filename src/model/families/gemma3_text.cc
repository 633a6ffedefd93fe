// Gemma 3 text: norms around attention and feed-forward, norms of each query and key head, layers that see a window of
// the context beside layers that see all of it, each kind with its own rope base.
#include <array>
#include <cmath>

#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array<std::string_view, 1> kGguf{"gemma3"};
constexpr std::array<std::string_view, 2> kModelTypes{"gemma3_text", "gemma3"};
constexpr auto kRules = std::to_array<WeightRule>({
    {AttnQNorm},
    {AttnKNorm},
    {AttnPostNorm},
    {FfnNorm, false, "layers.{}.pre_feedforward_layernorm.weight"},
    {FfnPostNorm},
});

ModelSpec read(const Config& config) {
  ModelSpec spec = read_dense(config);
  spec.embedding_scale = scale_of_embedding(config, spec.hidden);
  if (!config.gguf()) spec.norm_offset = 1;  // the GGUF converter has added it
  spec.logit_cap =
      static_cast<float>(config.get_float({"final_logit_softcapping", "final_logit_softcapping"}).value_or(0));
  const auto score_cap = static_cast<float>(config.get_float({"", "attn_logit_softcapping"}).value_or(0));
  // GGUF has no word of it; of the published sizes only that of 62 layers differs.
  const LayerSpec& usual = spec.layers.front();
  const bool largest = config.gguf() && spec.layers.size() == 62;
  const double scalar = config.above(0, {"", "query_pre_attn_scalar"},
                                     static_cast<double>(largest ? spec.hidden / usual.heads : usual.head_dim));
  const int64_t window = config.require_int({"attention.sliding_window", "sliding_window"}, 1, INT32_MAX);
  const Key pattern{"attention.sliding_window_pattern", "sliding_window_pattern"};
  const std::vector<bool> sees_all = full_attention_layers(config, spec.layers.size(), "sliding_attention", pattern, 6);
  // Newer config.json files have a rope for each kind of layer.
  const Key nested{"", "rope_theta", "rope_parameters.full_attention."};
  RopeSpec global = spec.layers.front().rope, local = global;
  if (config.contains(nested)) {
    global = read_rope(config, spec.layers.front().head_dim, nested.group);
    local = read_rope(config, spec.layers.front().head_dim, "rope_parameters.sliding_attention.");
  } else {
    local.scaling = RopeSpec::Scaling::None;
    local.base = config.above(1, {"rope.freq_base_swa", "rope_local_base_freq"}, 10000);
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    LayerSpec& layer = spec.layers[i];
    layer.activation = Activation::GeluTanh;
    layer.score_scale = static_cast<float>(1 / std::sqrt(scalar));
    layer.score_cap = score_cap;
    layer.rope = sees_all[i] ? global : local;
    if (!sees_all[i]) layer.window = window;
  }
  return spec;
}

constexpr auto kDefaults = std::to_array<Default>({
    {"hidden_size", 2304},
    {"intermediate_size", 9216},
    {"num_hidden_layers", 26},
    {"num_attention_heads", 8},
    {"num_key_value_heads", 4},
    {"head_dim", 256},
    {"max_position_embeddings", 131072},
    {"rms_norm_eps", 1e-6},
    {"query_pre_attn_scalar", 256},
    {"sliding_window", 4096},
    {"sliding_window_pattern", 6},
    {"rope_theta", 1e6},
    {"rope_local_base_freq", 1e4},
});
constexpr Family kFamily = {"gemma3_text", kGguf, kModelTypes, kRules, &read, kDefaults};

}  // namespace

const Family& gemma3_text_family() {
  return kFamily;
}

}  // namespace lockstep
