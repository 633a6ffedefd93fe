// Gemma 4 text, dense: Gemma 3's norms and windows, and beside them value norms, layers of two head sizes, keys that
// serve as values, layers that read the keys and values of an earlier one, and inputs that every layer takes from an
// embedding of its own.
#include <array>
#include <cmath>

#include "base/error.h"
#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array<std::string_view, 2> kModelTypes{"gemma4_text", "gemma4"};
constexpr auto kRules = std::to_array<WeightRule>({
    {LayerInputEmbedding, true},
    {LayerInputProjection, true},
    {LayerInputProjectionNorm, true},
    {AttnQNorm},
    {AttnKNorm},
    {AttnPostNorm},
    {FfnNorm, false, "layers.{}.pre_feedforward_layernorm.weight"},
    {FfnPostNorm},
    {LayerInputGate, true},
    {LayerInputOutput, true},
    {LayerInputNorm, true},
    {LayerScale, true},
});

ModelSpec read(const Config& config) {
  ModelSpec spec = read_dense(config);
  const auto layers = static_cast<int64_t>(spec.layers.size());
  spec.embedding_scale = to_bfloat16(std::sqrt(static_cast<float>(spec.hidden)));  // as it was trained
  spec.logit_cap = static_cast<float>(config.get_float({"", "final_logit_softcapping"}).value_or(0));
  spec.layer_input = config.get_int({"", "hidden_size_per_layer_input"}, 0, kMostWidth).value_or(0);
  if (spec.layer_input > 0) {
    spec.layer_embedding_scale = to_bfloat16(std::sqrt(static_cast<float>(spec.layer_input)));
    spec.layer_vocab = config.require_int({"", "vocab_size_per_layer_input"}, spec.vocab, INT32_MAX);
  }
  const Key experts{"", "enable_moe_block"};
  if (config.get_bool(experts).value_or(false)) {
    fail(ErrorKind::Unsupported, "{}: {} is true; mixture-of-experts models do not run yet", config.file(),
         config.name(experts));
  }
  const int64_t window = config.require_int({"", "sliding_window"}, 1, INT32_MAX);
  const int64_t period = config.get_int({"", "sliding_window_pattern"}, 1, kMostWidth).value_or(5);
  const std::vector<bool> sees_all = full_attention_layers(config, spec.layers.size(), "sliding_attention", period);
  const int64_t shared = config.get_int({"", "num_kv_shared_layers"}, 0, layers - 1).value_or(0);
  const bool wide = config.get_bool({"", "use_double_wide_mlp"}).value_or(false);
  const bool keys_are_values = config.get_bool({"", "attention_k_eq_v"}).value_or(false);
  const LayerSpec usual = spec.layers.front();

  LayerSpec sliding = usual;
  sliding.window = window;
  LayerSpec full = usual;
  full.head_dim = config.get_int({"", "global_head_dim"}, 1, kMostWidth).value_or(usual.head_dim);
  if (keys_are_values) {
    full.keys_are_values = true;
    const Key kv_heads{"", "num_global_key_value_heads"};
    if (config.contains(kv_heads)) full.kv_heads = read_kv_heads(config, kv_heads, full.heads);
  }
  constexpr std::string_view kSlidingRope = "rope_parameters.sliding_attention.";
  constexpr std::string_view kFullRope = "rope_parameters.full_attention.";
  for (const std::string_view group : {kSlidingRope, kFullRope}) config.require_float({"", "rope_theta", group});
  sliding.rope = read_rope(config, sliding.head_dim, kSlidingRope);
  full.rope = read_rope(config, full.head_dim, kFullRope);
  for (LayerSpec* layer : {&sliding, &full}) {
    layer->score_scale = 1;
    layer->value_norm = true;
    layer->activation = Activation::GeluTanh;
  }

  std::array<int64_t, 2> last{-1, -1};  // of each kind, among the layers with keys and values of their own
  for (int64_t i = 0; i < layers; ++i) {
    const bool is_full = sees_all[static_cast<size_t>(i)];
    LayerSpec& layer = spec.layers[static_cast<size_t>(i)] = is_full ? full : sliding;
    int64_t& source = last[is_full ? 1 : 0];
    if (i < layers - shared) {
      source = i;
      continue;
    }
    if (source < 0) {
      fail(ErrorKind::Malformed, "{}: layer {} reads the keys of an earlier layer of its kind, but there is none",
           config.file(), i);
    }
    layer.kv_layer = source;
    if (wide) layer.ffn *= 2;
  }
  return spec;
}

constexpr Family kFamily = {"gemma4_text", {}, kModelTypes, kRules, &read};

}  // namespace

const Family& gemma4_text_family() {
  return kFamily;
}

}  // namespace lockstep
