// Names of numbers and tensors in each format, and the reading of a dense model.
#include "model/config.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/quoted.h"
#include "model/roles.h"

namespace lockstep {
namespace {

// Checkpoints saved from multimodal classes keep the numbers of the text part in an object of its own.
constexpr std::string_view kTextPart = "text_config.";

constexpr size_t kMostName = 64;  // bytes of a family's name

constexpr auto kStems = std::to_array<std::array<std::string_view, 2>>({
    {"model.", ""},
    {"model.language_model.", ""},
    {"language_model.model.", "language_model."},
    {"", ""},
});

}  // namespace

Config::Config(const Checkpoint& checkpoint) : checkpoint_(checkpoint), gguf_(checkpoint.naming() == Naming::Gguf) {
  const Metadata& metadata = checkpoint.metadata();
  if (gguf_) {
    family_ = metadata.require_string("general.architecture");
    if (family_.size() <= kMostName) prefix_ = std::string(family_) + ".";  // a longer one is no family's
    return;
  }
  if (metadata.contains(std::string(kTextPart) + "hidden_size")) prefix_ = kTextPart;
  family_ = metadata.require_string(prefix_ + "model_type");
  for (const auto& [stem, head] : kStems) {
    if (checkpoint.find(std::string(stem) + std::string(info(Role::TokenEmbedding).hugging_face)) == nullptr) continue;
    stem_ = stem;
    head_ = head;
    return;
  }
  fail(ErrorKind::NotFound, "{}: no tensor ends in {}; a language model has one", file(),
       in_quotes(info(Role::TokenEmbedding).hugging_face));
}

const std::string& Config::file() const {
  return checkpoint_.metadata().file();
}

std::string Config::name(Key key) const {
  const std::string_view name = gguf_ ? key.gguf : key.hugging_face;
  if (name.empty()) return "";
  return prefix_ + std::string(gguf_ ? "" : key.group) + std::string(name);
}

bool Config::contains(Key key) const {
  return checkpoint_.metadata().contains(name(key));
}
std::optional<double> Config::default_of(Key key) const {
  if (gguf_ || contains(key)) return std::nullopt;
  for (const Default& number : defaults_) {
    if (key.group.empty() && number.hugging_face == key.hugging_face) return number.value;
  }
  return std::nullopt;
}
std::optional<int64_t> Config::get_int(Key key, int64_t min, int64_t max) const {
  if (const auto usual = default_of(key)) return static_cast<int64_t>(*usual);
  return checkpoint_.metadata().get_int(name(key), min, max);
}
std::optional<double> Config::get_float(Key key) const {
  if (const auto usual = default_of(key)) return usual;
  return checkpoint_.metadata().get_float(name(key));
}
std::optional<bool> Config::get_bool(Key key) const {
  return checkpoint_.metadata().get_bool(name(key));
}
std::optional<std::string_view> Config::get_string(Key key) const {
  return checkpoint_.metadata().get_string(name(key));
}
std::span<const std::string_view> Config::get_strings(Key key) const {
  return checkpoint_.metadata().get_strings(name(key));
}
std::span<const int64_t> Config::get_ints(Key key) const {
  return checkpoint_.metadata().get_ints(name(key));
}
std::vector<bool> Config::get_bools(Key key) const {
  return checkpoint_.metadata().get_bools(name(key));
}
int64_t Config::require_int(Key key, int64_t min, int64_t max) const {
  if (const auto usual = default_of(key)) return static_cast<int64_t>(*usual);
  return checkpoint_.metadata().require_int(name(key), min, max);
}
double Config::require_float(Key key) const {
  if (const auto usual = default_of(key)) return *usual;
  return checkpoint_.metadata().require_float(name(key));
}

bool Config::is_string(Key key) const {
  const MetadataValue* found = checkpoint_.metadata().find(name(key));
  const auto* scalar = found == nullptr ? nullptr : std::get_if<MetadataScalar>(&found->value);
  return scalar != nullptr && std::holds_alternative<std::string_view>(*scalar);
}

bool Config::is_list(Key key) const {
  const MetadataValue* found = checkpoint_.metadata().find(name(key));
  return found != nullptr && !std::holds_alternative<MetadataScalar>(found->value);
}

void Config::require_one_a_layer(Key key, size_t found, size_t layers) const {
  if (found == layers) return;
  fail(ErrorKind::Malformed, "{}: {} has {} entries; the model has {} layers", file(), name(key), found, layers);
}

std::vector<int64_t> Config::each_layer(Key key, size_t layers, int64_t min, int64_t max) const {
  if (!is_list(key)) {
    const auto value = get_int(key, min, max);
    return std::vector<int64_t>(value ? layers : 0, value.value_or(0));
  }
  const auto list = get_ints(key);
  require_one_a_layer(key, list.size(), layers);
  for (const int64_t value : list) {
    if (value >= min && value <= max) continue;
    fail(ErrorKind::Malformed, "{}: {} holds {}; allowed are {} to {}", file(), name(key), value, min, max);
  }
  return {list.begin(), list.end()};
}

double Config::above(double limit, Key key, double otherwise) const {
  const double value = get_float(key).value_or(otherwise);
  if (!(value > limit))
    fail(ErrorKind::Malformed, "{}: {} is {}; it must be above {}", file(), name(key), value, limit);
  return value;
}

std::string Config::tensor_name(Role role, const WeightRule& rule, int64_t layer) const {
  const RoleInfo& usual = info(role);
  std::string_view pattern = gguf_ ? rule.gguf : rule.hugging_face;
  if (pattern.empty()) pattern = gguf_ ? usual.gguf : usual.hugging_face;
  if (pattern.empty()) return "";
  const std::string name = layer < 0 ? std::string(pattern) : fmt::format(fmt::runtime(pattern), layer);
  if (gguf_) return name;
  return (role == Role::LmHead ? head_ : stem_) + name;
}

namespace {

// Newer config.json files keep all of a rope in rope_parameters; rope_scaling, which people add, comes before it.
constexpr std::string_view kRopeScaling = "rope_scaling.", kRopeParameters = "rope_parameters.";

std::string_view rope_group(const Config& config) {
  for (const std::string_view group : {kRopeScaling, kRopeParameters}) {
    if (config.contains({"", "rope_type", group}) || config.contains({"", "type", group})) return group;
  }
  return kRopeParameters;
}

// The key in the group where the file has it: the one that is asked for, rope_parameters, none.
Key in_some_group(const Config& config, Key key) {
  if (config.contains(key)) return key;
  key.group = kRopeParameters;
  if (!config.contains(key)) key.group = {};
  return key;
}

int64_t read_rotary(const Config& config, int64_t head_dim, std::string_view group) {
  int64_t rotary = head_dim;
  if (config.gguf()) {
    rotary = config.get_int({"rope.dimension_count", ""}, 2, head_dim).value_or(head_dim);
  } else {
    const Key key = in_some_group(config, {"", "partial_rotary_factor", group});
    const double part = config.get_float(key).value_or(1);
    rotary = static_cast<int64_t>(part * static_cast<double>(head_dim));
    if (!(part <= 1 && rotary >= 2)) {
      fail(ErrorKind::Malformed, "{}: {} is {}; it must be at most 1, and leave 2 of {} elements at least",
           config.file(), config.name(key), part, head_dim);
    }
  }
  if (rotary % 2 != 0) {
    fail(ErrorKind::Malformed, "{}: the rotary width is {}, that of a head {}; it must be even", config.file(), rotary,
         head_dim);
  }
  return rotary;
}

void read_yarn(const Config& config, std::string_view group, RopeSpec& rope) {
  for (const std::string_view variant : {"mscale", "mscale_all_dim", "truncate"}) {
    const Key key{"", variant, group};
    const bool usual = variant == "truncate" && config.get_bool(key).value_or(true);
    if (!config.gguf() && config.contains(key) && !usual) {
      fail(ErrorKind::Unsupported, "{}: {} is given; this variant of yarn is not known", config.file(),
           config.name(key));
    }
  }
  rope.scaling = RopeSpec::Scaling::Yarn;
  rope.beta_fast = config.above(0, {"rope.scaling.yarn_beta_fast", "beta_fast", group}, 32);
  rope.beta_slow = config.above(0, {"rope.scaling.yarn_beta_slow", "beta_slow", group}, 1);
  const double usual = rope.factor > 1 ? 0.1 * std::log(rope.factor) + 1 : 1;
  rope.attention_factor = config.gguf() ? config.above(0, {"rope.scaling.attn_factor", ""}, 1) * usual
                                        : config.above(0, {"", "attention_factor", group}, usual);
}

// Hunyuan: a base that is raised once for all.
void raise_base(const Config& config, Key alpha, RopeSpec& rope) {
  const auto rotary = static_cast<double>(rope.rotary);
  const double raised = config.above(0, alpha, 1);
  if (rope.rotary > 2) rope.base *= std::pow(raised, rotary / (rotary - 2));
}

}  // namespace

RopeSpec read_rope(const Config& config, int64_t head_dim, std::string_view group) {
  if (group.empty()) group = rope_group(config);
  RopeSpec rope;
  rope.rotary = read_rotary(config, head_dim, group);
  rope.base = config.above(1, in_some_group(config, {"rope.freq_base", "rope_theta", group}), 10000);
  Key kind_key{"rope.scaling.type", "rope_type", group};
  if (!config.contains(kind_key)) kind_key.hugging_face = "type";
  // GGUF files with a factor and no word of its kind are linear; old ones call it otherwise.
  const std::string_view kind = config.get_string(kind_key).value_or(config.gguf() ? "linear" : "none");
  Key factor{"rope.scaling.factor", "factor", group};
  if (config.gguf() && !config.contains(factor)) factor.gguf = "rope.scale_linear";
  rope.factor = config.get_float(factor).value_or(1);
  if (rope.factor < 1) {
    fail(ErrorKind::Malformed, "{}: {} is {}; it must be at least 1", config.file(), config.name(factor), rope.factor);
  }
  const Key alpha{"rope.scaling.alpha", "alpha", group};
  const bool hugging_face = !config.gguf();
  if (config.gguf() && config.contains(alpha)) {
    raise_base(config, alpha, rope);
  } else if (kind == "linear") {
    if (rope.factor > 1) rope.scaling = RopeSpec::Scaling::Linear;
  } else if (kind == "yarn") {
    read_yarn(config, group, rope);
  } else if (kind == "llama3" && hugging_face) {
    rope.scaling = RopeSpec::Scaling::Llama3;
    rope.low_frequency = config.above(0, {"", "low_freq_factor", group}, 1);
    rope.high_frequency = config.above(rope.low_frequency, {"", "high_freq_factor", group}, 4);
  } else if (kind == "proportional" && hugging_face) {
    // The frequencies are those of a whole head; the slowest pairs do not turn.
    rope.scaling = RopeSpec::Scaling::Proportional;
    rope.turning = rope.rotary / 2;
    rope.rotary = head_dim;
  } else if (kind == "dynamic" && hugging_face && config.contains(alpha)) {
    raise_base(config, alpha, rope);
  } else if (kind != "none" && (kind != "default" || config.gguf())) {
    fail(ErrorKind::Unsupported, "{}: {} is {}; known: {}", config.file(), config.name(kind_key), in_quotes(kind),
         config.gguf() ? "none, linear, yarn (and the Llama 3 kind as tensor rope_freqs.weight)"
                       : "default, linear, llama3, yarn, proportional, and dynamic with alpha");
  }
  if (rope.scaling == RopeSpec::Scaling::Llama3 || rope.scaling == RopeSpec::Scaling::Yarn) {
    rope.original_context = config.require_int(
        {"rope.scaling.original_context_length", "original_max_position_embeddings", group}, 1, INT32_MAX);
  }
  return rope;
}

namespace {

// For each layer.
std::vector<int64_t> read_kv_heads(const Config& config, Key key, int64_t heads, size_t layers) {
  std::vector<int64_t> all = config.each_layer(key, layers, 1, heads);
  if (all.empty()) all.assign(layers, heads);
  for (const int64_t kv_heads : all) {
    if (heads % kv_heads == 0) continue;
    fail(ErrorKind::Malformed, "{}: {} is {}; it must divide the {} query heads", config.file(), config.name(key),
         kv_heads, heads);
  }
  return all;
}

}  // namespace

int64_t read_kv_heads(const Config& config, Key key, int64_t heads) {
  return read_kv_heads(config, key, heads, 1).front();
}

std::vector<bool> full_attention_layers(const Config& config, size_t layers, std::string_view other, Key period,
                                        int64_t usual) {
  constexpr std::string_view kFull = "full_attention";
  if (config.is_list(period)) {
    std::vector<bool> full = config.get_bools(period);
    config.require_one_a_layer(period, full.size(), layers);
    full.flip();
    return full;
  }
  const int64_t every = config.get_int(period, 1, kMostWidth).value_or(usual);
  const Key key{"", "layer_types"};
  const auto types = config.get_strings(key);
  std::vector<bool> full;
  for (size_t i = 0; i < layers; ++i) full.push_back((static_cast<int64_t>(i) + 1) % every == 0);
  if (types.empty()) return full;
  config.require_one_a_layer(key, types.size(), layers);
  for (size_t i = 0; i < layers; ++i) {
    full[i] = types[i] == kFull;
    if (full[i] || types[i] == other) continue;
    fail(ErrorKind::Unsupported, "{}: {} holds {}; known: {}, {}", config.file(), config.name(key), in_quotes(types[i]),
         kFull, other);
  }
  return full;
}

void read_windows(const Config& config, std::vector<bool> usual, ModelSpec& spec) {
  const Key used{"", "use_sliding_window"};
  const Key types{"", "layer_types"};
  const bool listed = !config.get_strings(types).empty();
  if (listed) {
    usual = full_attention_layers(config, spec.layers.size(), "sliding_attention", {}, 1);
    usual.flip();
  }
  if (!config.get_bool(used).value_or(false)) {
    if (!listed || std::find(usual.begin(), usual.end(), true) == usual.end()) return;
    fail(ErrorKind::Malformed, "{}: {} holds sliding_attention, but {} is not true", config.file(), config.name(types),
         config.name(used));
  }
  const int64_t window = config.require_int({"", "sliding_window"}, 1, INT32_MAX);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (usual[i]) spec.layers[i].window = window;
  }
}

float scale_of_embedding(const Config& config, int64_t width) {
  const float root = std::sqrt(static_cast<float>(width));
  const TensorInfo* embedding =
      config.checkpoint().find(config.tensor_name(Role::TokenEmbedding, {Role::TokenEmbedding}, -1));
  if (config.gguf() || (embedding != nullptr && embedding->dtype == DType::F32)) return root;
  const auto bits = std::bit_cast<uint32_t>(root);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000U);
}

namespace {

// Models that embed texts see what follows as well.
void refuse_bidirectional(const Config& config) {
  const Key both{"", "use_bidirectional_attention"}, causal{"attention.causal", ""};
  const bool text = config.is_string(both);  // "vision": of pictures only
  const bool yes = text ? config.get_string(both) == "all" : config.get_bool(both).value_or(false);
  if (!yes && config.get_bool(causal).value_or(true)) return;
  fail(ErrorKind::Unsupported, "{}: {} is {}; models in which a token sees those after it do not run", config.file(),
       config.name(yes ? both : causal), yes ? "true" : "false");
}

}  // namespace

ModelSpec read_dense(const Config& config) {
  ModelSpec spec;
  for (const Key key : {Key{"expert_count", "num_experts"}, Key{"", "num_local_experts"}}) {
    if (const auto experts = config.get_int(key, 0, kMostWidth).value_or(0); experts > 0) {
      fail(ErrorKind::Unsupported, "{}: {} is {}; mixture-of-experts models do not run yet", config.file(),
           config.name(key), experts);
    }
  }
  refuse_bidirectional(config);
  // A layer has at least seven tensors, so the number of layers is bounded by what the file holds.
  const auto most_layers = static_cast<int64_t>(config.checkpoint().tensors().size());
  const int64_t blocks = config.require_int({"block_count", "num_hidden_layers"}, 1, std::max<int64_t>(most_layers, 1));
  const int64_t layers = blocks - config.get_int(kPredictedLayers, 0, blocks - 1).value_or(0);
  spec.hidden = config.require_int({"embedding_length", "hidden_size"}, 1, kMostWidth);
  spec.context = config.require_int({"context_length", "max_position_embeddings"}, 1, INT32_MAX);
  const TensorInfo* embedding =
      config.checkpoint().find(config.tensor_name(Role::TokenEmbedding, {Role::TokenEmbedding}, -1));
  spec.vocab = embedding != nullptr && embedding->shape.size() == 2
                   ? embedding->shape[0]
                   : config.require_int({"vocab_size", "vocab_size"}, 1, kMostWidth);
  if (spec.vocab < 1 || spec.vocab > INT32_MAX) {
    fail(ErrorKind::Malformed, "{}: the vocabulary has {} entries; allowed are 1 to {}", config.file(), spec.vocab,
         INT32_MAX);
  }
  const Key eps{"attention.layer_norm_rms_epsilon", "rms_norm_eps"};
  const double norm_eps = config.require_float(eps);
  if (!(norm_eps >= 0 && norm_eps <= 1)) {
    fail(ErrorKind::Malformed, "{}: {} is {}; it must be from 0 to 1", config.file(), config.name(eps), norm_eps);
  }
  spec.norm_eps = static_cast<float>(norm_eps);

  LayerSpec layer;
  layer.heads = config.require_int({"attention.head_count", "num_attention_heads"}, 1, kMostWidth);
  const auto kv_heads = read_kv_heads(config, {"attention.head_count_kv", "num_key_value_heads"}, layer.heads,
                                      static_cast<size_t>(layers));
  const auto head_dim = config.get_int({"attention.key_length", "head_dim"}, 1, kMostWidth);
  if (!head_dim && spec.hidden % layer.heads != 0) {
    fail(ErrorKind::Malformed, "{}: {} {} is not a multiple of the {} query heads", config.file(),
         config.name({"embedding_length", "hidden_size"}), spec.hidden, layer.heads);
  }
  layer.head_dim = head_dim.value_or(spec.hidden / layer.heads);
  const Key value_length{"attention.value_length", ""};
  const int64_t value_dim = config.get_int(value_length, 1, kMostWidth).value_or(layer.head_dim);
  if (value_dim != layer.head_dim) {
    fail(ErrorKind::Unsupported, "{}: {} is {}; only the key length, {}, is supported", config.file(),
         config.name(value_length), value_dim, layer.head_dim);
  }
  const Key ffn_key{"feed_forward_length", "intermediate_size"};
  const auto ffn = config.each_layer(ffn_key, static_cast<size_t>(layers), 1, kMostWidth);
  if (ffn.empty()) config.require_int(ffn_key, 1, kMostWidth);  // says that it is missing
  layer.score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(layer.head_dim)));
  layer.rope = read_rope(config, layer.head_dim);
  const Key activation{"", config.contains({"", "hidden_activation"}) ? "hidden_activation" : "hidden_act"};
  const std::string_view kind = config.get_string(activation).value_or("silu");
  if (kind == "gelu_pytorch_tanh" || kind == "gelu_tanh") {
    layer.activation = Activation::GeluTanh;
  } else if (kind != "silu" && kind != "swish") {
    fail(ErrorKind::Unsupported, "{}: {} is {}; known: silu, gelu_pytorch_tanh", config.file(), config.name(activation),
         in_quotes(kind));
  }
  for (size_t i = 0; i < static_cast<size_t>(layers); ++i) {
    layer.kv_heads = kv_heads[i];
    layer.ffn = ffn[i];
    spec.layers.push_back(layer);
  }
  return spec;
}

ModelSpec read_dense_with_windows(const Config& config) {
  ModelSpec spec = read_dense(config);
  const auto first = static_cast<size_t>(config.get_int({"", "max_window_layers"}, 0, kMostWidth).value_or(28));
  std::vector<bool> windowed(spec.layers.size());
  for (size_t i = first; i < windowed.size(); ++i) windowed[i] = true;
  read_windows(config, std::move(windowed), spec);
  return spec;
}

}  // namespace lockstep
