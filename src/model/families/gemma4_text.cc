// Gemma 4 text, dense: Gemma 3's norms and windows, and beside them value norms, layers of two head sizes, keys that
// serve as values, layers that read the keys and values of an earlier one, and inputs that every layer takes from an
// embedding of its own.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "model/config.h"
#include "model/families.h"

namespace lockstep {
namespace {

using enum Role;
constexpr std::array<std::string_view, 1> kGguf{"gemma4"};
constexpr std::array<std::string_view, 2> kModelTypes{"gemma4_text", "gemma4"};
constexpr auto kRules = std::to_array<WeightRule>({
    {LayerInputEmbedding},
    {LayerInputProjection},
    {LayerInputProjectionNorm},
    {RopeFactors, true},
    {AttnQNorm},
    {AttnKNorm},
    {AttnPostNorm},
    {FfnNorm, false, "layers.{}.pre_feedforward_layernorm.weight"},
    {FfnPostNorm},
    {LayerInputGate},
    {LayerInputOutput},
    {LayerInputNorm},
    {LayerScale, true},
});

// In GGUF a layer without a projection of values shows it.
bool keys_are_values(const Config& config, const std::vector<bool>& sees_all) {
  if (!config.gguf()) return config.get_bool({"", "attention_k_eq_v"}).value_or(false);
  const auto first = std::find(sees_all.begin(), sees_all.end(), true) - sees_all.begin();
  return config.checkpoint().find(config.tensor_name(AttnV, {AttnV}, first)) == nullptr;
}

struct Kinds {
  LayerSpec sliding, full;
};

// What the two kinds of layers have beside what read_dense() says, in which heads are as wide as those of full layers
// in GGUF, of sliding ones in config.json.
Kinds read_kinds(const Config& config, const LayerSpec& usual) {
  Kinds kinds{usual, usual};
  auto& [sliding, full] = kinds;
  sliding.window = config.require_int({"attention.sliding_window", "sliding_window"}, 1, INT32_MAX);
  if (config.gguf()) {
    sliding.head_dim = config.require_int({"attention.key_length_swa", ""}, 1, kMostWidth);
    sliding.rope.rotary =
        config.get_int({"rope.dimension_count_swa", ""}, 2, sliding.head_dim).value_or(sliding.head_dim);
    sliding.rope.base = config.above(1, {"rope.freq_base_swa", ""}, 10000);
    sliding.rope.scaling = RopeSpec::Scaling::None;
  } else {
    full.head_dim = config.get_int({"", "global_head_dim"}, 1, kMostWidth).value_or(usual.head_dim);
    constexpr std::string_view kSliding = "rope_parameters.sliding_attention.";
    constexpr std::string_view kFull = "rope_parameters.full_attention.";
    for (const std::string_view group : {kSliding, kFull}) config.require_float({"", "rope_theta", group});
    sliding.rope = read_rope(config, sliding.head_dim, kSliding);
    full.rope = read_rope(config, full.head_dim, kFull);
  }
  sliding.rope.factors = false;
  return kinds;
}

// The inputs that every layer takes.
void read_layer_inputs(const Config& config, ModelSpec& spec) {
  spec.layer_input =
      config.get_int({"embedding_length_per_layer_input", "hidden_size_per_layer_input"}, 0, kMostWidth).value_or(0);
  if (spec.layer_input == 0) return;
  spec.layer_embedding_scale = scale_of_embedding(config, spec.layer_input);
  const TensorInfo* embedding =
      config.checkpoint().find(config.tensor_name(LayerInputEmbedding, {LayerInputEmbedding}, -1));
  if (!config.gguf()) {
    spec.layer_vocab = config.require_int({"", "vocab_size_per_layer_input"}, 1, INT32_MAX);
  } else if (embedding != nullptr && embedding->shape.size() == 2) {
    spec.layer_vocab = embedding->shape[0];
  } else {
    spec.layer_vocab = spec.vocab;  // the tensor is refused when it is bound
  }
  if (spec.layer_vocab < spec.vocab) {
    fail(ErrorKind::Malformed, "{}: the embedding of layers' inputs has {} entries; the vocabulary has {}",
         config.file(), spec.layer_vocab, spec.vocab);
  }
}

ModelSpec read(const Config& config) {
  ModelSpec spec = read_dense(config);
  const auto layers = static_cast<int64_t>(spec.layers.size());
  spec.embedding_scale = scale_of_embedding(config, spec.hidden);
  spec.logit_cap =
      static_cast<float>(config.get_float({"final_logit_softcapping", "final_logit_softcapping"}).value_or(0));
  read_layer_inputs(config, spec);
  const Key experts{"", "enable_moe_block"};
  if (config.get_bool(experts).value_or(false)) {
    fail(ErrorKind::Unsupported, "{}: {} is true; mixture-of-experts models do not run yet", config.file(),
         config.name(experts));
  }
  const Key period{"attention.sliding_window_pattern", "sliding_window_pattern"};
  std::vector<bool> sees_all = full_attention_layers(config, spec.layers.size(), "sliding_attention", period, 6);
  if (!config.gguf() && config.get_strings({"", "layer_types"}).empty()) sees_all.back() = true;
  const Key shared_key{"attention.shared_kv_layers", "num_kv_shared_layers"};
  const int64_t shared = config.get_int(shared_key, 0, layers - 1).value_or(0);
  const bool wide = config.get_bool({"", "use_double_wide_mlp"}).value_or(false);
  const bool one_projection = keys_are_values(config, sees_all);
  const Kinds kinds = read_kinds(config, spec.layers.front());
  const Key full_kv_heads{"", "num_global_key_value_heads"};

  std::array<int64_t, 2> last{-1, -1};  // of each kind, among the layers with keys and values of their own
  for (int64_t i = 0; i < layers; ++i) {
    const bool full = sees_all[static_cast<size_t>(i)];
    const LayerSpec usual = spec.layers[static_cast<size_t>(i)];
    LayerSpec& layer = spec.layers[static_cast<size_t>(i)] = full ? kinds.full : kinds.sliding;
    layer.kv_heads = usual.kv_heads;
    layer.ffn = usual.ffn;
    layer.score_scale = 1;
    layer.value_norm = true;
    layer.activation = Activation::GeluTanh;
    if (full && one_projection) {
      layer.keys_are_values = true;
      if (config.contains(full_kv_heads)) layer.kv_heads = read_kv_heads(config, full_kv_heads, layer.heads);
    }
    int64_t& source = last[full ? 1 : 0];
    if (i < layers - shared) {
      source = i;
      continue;
    }
    if (source < 0) {
      fail(ErrorKind::Malformed, "{}: layer {} reads the keys of an earlier layer of its kind, but there is none",
           config.file(), i);
    }
    layer.kv_layer = source;
    if (const int64_t theirs = spec.layers[static_cast<size_t>(source)].kv_heads; layer.kv_heads != theirs) {
      fail(ErrorKind::Malformed, "{}: layer {} reads the keys of layer {}, but has {} heads of them, and not {}",
           config.file(), i, source, layer.kv_heads, theirs);
    }
    if (wide) layer.ffn *= 2;
  }
  return spec;
}

constexpr auto kDefaults = std::to_array<Default>({
    {"hidden_size", 2304},
    {"intermediate_size", 9216},
    {"num_hidden_layers", 30},
    {"num_attention_heads", 8},
    {"num_key_value_heads", 4},
    {"head_dim", 256},
    {"global_head_dim", 512},
    {"max_position_embeddings", 131072},
    {"rms_norm_eps", 1e-6},
    {"sliding_window", 512},
    {"vocab_size_per_layer_input", 262144},
    {"hidden_size_per_layer_input", 256},
});
constexpr Family kFamily = {"gemma4_text", kGguf, kModelTypes, kRules, &read, kDefaults};

}  // namespace

const Family& gemma4_text_family() {
  return kFamily;
}

}  // namespace lockstep
