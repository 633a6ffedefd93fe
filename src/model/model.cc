// Finding the family of a checkpoint and binding its rules to the tensors of the file.
#include "model/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/quoted.h"
#include "model/config.h"
#include "model/families.h"
#include "model/roles.h"

namespace lockstep {
namespace {

bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

// Rotary pairs that a checkpoint's own divisors are for.
int64_t divided_pairs(const ModelSpec& spec) {
  for (const LayerSpec& layer : spec.layers) {
    if (layer.rope.factors && layer.rope.rotary > 0) return layer.rope.rotary / 2;
  }
  return 0;
}

// `unit` elements for each query (or value) head, in the order the file has them.
Dim heads_of(Axis axis, const LayerSpec& layer, int64_t unit) {
  Dim dim{axis, layer.heads, unit};
  if (layer.tile_run > 0 && layer.tile_run < layer.kv_heads) {
    dim.tiles = layer.heads / layer.kv_heads;
    dim.run = layer.tile_run * unit;
  }
  return dim;
}

Dim dim_of(Axis axis, const ModelSpec& spec, const LayerSpec& layer) {
  switch (axis) {
    case Axis::One:
      return {axis, 1, 1};
    case Axis::Model:
      return {axis, spec.hidden, 1};
    case Axis::Heads:
      return heads_of(axis, layer, layer.head_dim);
    case Axis::KvHeads:
      return {axis, layer.kv_heads, layer.mixer == Mixer::GatedDelta ? layer.key_dim : layer.head_dim};
    case Axis::Ffn:
      return {axis, layer.ffn, 1};
    case Axis::Vocab:
      return {axis, spec.vocab, 1};
    case Axis::Rotary:
      return {axis, divided_pairs(spec), 1};
    case Axis::HeadDim:
      return {axis, layer.head_dim, 1};
    case Axis::HeadScalars:
      return heads_of(axis, layer, 1);
    case Axis::Taps:
      return {axis, layer.taps, 1};
    case Axis::LayerVocab:
      return {axis, spec.layer_vocab, 1};
    case Axis::LayerInputs:
      return {axis, static_cast<int64_t>(spec.layers.size()), spec.layer_input};
    case Axis::LayerInput:
      return {axis, spec.layer_input, 1};
  }
  return {};
}

// A shape without sides of one element.
std::vector<int64_t> squeezed(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

// What the rules say of one tensor of the file. Several weights may lie in it, one above another in rule order.
struct Use {
  int64_t rows = 0, cols = 1;
  Axis in = Axis::One;
};
using Uses = std::map<std::string, Use, std::less<>>;

// Adds the rule's weight to the spec; false when the file does not have it.
bool bind(const WeightRule& rule, int64_t layer, const Config& config, ModelSpec& spec, Uses& uses) {
  const std::string name = config.tensor_name(rule.role, rule, layer);
  const TensorInfo* tensor = name.empty() ? nullptr : config.checkpoint().find(name);
  if (tensor == nullptr) {
    if (rule.optional) return false;
    fail(ErrorKind::NotFound, "{}: tensor {} is missing; a {} model needs it", spec.file, in_quotes(name),
         spec.architecture);
  }
  const RoleInfo& role = info(rule.role);
  const LayerSpec& numbers = spec.layers[static_cast<size_t>(std::max<int64_t>(layer, 0))];
  Use& use = uses[name];
  WeightSpec weight;
  weight.role = rule.role;
  weight.layer = layer;
  weight.name = name;
  weight.first_row = use.rows;
  weight.dtype = tensor->dtype;
  weight.out = dim_of(role.out, spec, numbers);
  weight.in = dim_of(role.in, spec, numbers);
  if (rule.role == Role::AttnQ && numbers.query_gate) weight.out.unit *= 2;
  use.rows += weight.out.size();
  use.cols = weight.in.size();
  use.in = role.in;
  if (held_as_floats(weight) && info(weight.dtype).block_elements > 1) {
    fail(ErrorKind::Unsupported, "{}: tensor {} is a {} in {}; it may be F32, F16 or BF16", spec.file, in_quotes(name),
         role.in == Axis::One ? "vector" : "convolution", info(weight.dtype).name);
  }
  spec.index[static_cast<size_t>(layer + 1)][static_cast<size_t>(rule.role)] =
      static_cast<int32_t>(spec.weights.size());
  spec.weights.push_back(std::move(weight));
  return true;
}

bool is_of_layer_inputs(Role role) {
  return role >= Role::LayerInputGate && role <= Role::LayerInputProjectionNorm && role != Role::LayerScale;
}

// A role of the other mixer has no weight in a layer, and what a layer reads of another it does not project.
bool applies(Role role, const ModelSpec& spec, const LayerSpec& layer) {
  if (is_of_layer_inputs(role)) return spec.layer_input > 0;
  const bool key = role == Role::AttnK || role == Role::AttnKNorm;
  if (layer.kv_layer >= 0 && (key || role == Role::AttnV)) return false;
  if (layer.keys_are_values && role == Role::AttnV) return false;
  const bool delta = role >= Role::DeltaQ && role <= Role::DeltaOutput;
  const bool attention = role >= Role::AttnQ && role <= Role::AttnOutputBias;
  return layer.mixer == Mixer::Attention ? !delta : !attention;
}

// The rules of every dense model, with the family's own.
std::vector<WeightRule> rules_of(const Family& family) {
  std::vector<WeightRule> rules(dense_rules().begin(), dense_rules().end());
  for (const WeightRule& own : family.rules) {
    const auto usual =
        std::find_if(rules.begin(), rules.end(), [&](const WeightRule& r) { return r.role == own.role; });
    if (usual == rules.end()) {
      rules.push_back(own);
    } else {
      *usual = own;
    }
  }
  return rules;
}

bool in_layers(const WeightRule& rule) {
  return info(rule.role).gguf.find("{}") != std::string_view::npos ||
         info(rule.role).hugging_face.find("{}") != std::string_view::npos;
}

// What a layer does not apply may be in the file all the same: published Gemma checkpoints keep projections of keys and
// values that no layer reads.
void ignore(const WeightRule& rule, int64_t layer, const Config& config, Uses& uses) {
  uses[config.tensor_name(rule.role, rule, layer)];
}

// An optional weight is in all layers that have its role or in none.
void require_alike(const WeightRule& rule, const Config& config, const ModelSpec& spec) {
  std::optional<int64_t> with, without;  // the first layer that has the weight, the first that lacks it
  for (int64_t layer = 0; layer < static_cast<int64_t>(spec.layers.size()); ++layer) {
    if (!applies(rule.role, spec, spec.layers[static_cast<size_t>(layer)])) continue;
    auto& first = spec.find(rule.role, layer) != nullptr ? with : without;
    first = first.value_or(layer);
  }
  if (!with || !without) return;
  fail(ErrorKind::NotFound, "{}: tensor {} is missing; layer {} has it", spec.file,
       in_quotes(config.tensor_name(rule.role, rule, *without)), *with);
}

// Whether a tensor belongs to a block behind the model's layers that the file says to be no layer of it.
bool of_later_block(std::string_view name, const Config& config, const ModelSpec& spec) {
  constexpr std::string_view kBlock = "blk.";
  if (!name.starts_with(kBlock) || !config.contains(kPredictedLayers)) return false;
  size_t block = 0;
  const std::from_chars_result read = std::from_chars(name.data() + kBlock.size(), name.data() + name.size(), block);
  return read.ec == std::errc() && block >= spec.layers.size();
}

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Compares what the rules say of each tensor with the file, and refuses tensors that nobody knows, which a wrong
// reading of the file would leave over.
void check_tensors(const Config& config, const ModelSpec& spec, const Uses& uses) {
  const auto require_ignored = [&](const std::string& name) {
    const auto ignored = ignored_tensors();
    if (of_later_block(name, config, spec)) return;
    if (std::any_of(ignored.begin(), ignored.end(), [&](auto pattern) { return matches(name, pattern); })) return;
    fail(ErrorKind::Unsupported, "{}: tensor {} is not part of a {} model as this program knows it", spec.file,
         in_quotes(name), spec.architecture);
  };
  for (const UnusableTensor& tensor : config.checkpoint().unusable()) require_ignored(tensor.name);
  for (const TensorInfo& tensor : config.checkpoint().tensors()) {
    const auto use = uses.find(tensor.name);
    if (use == uses.end()) {
      require_ignored(tensor.name);
      continue;
    }
    const auto& [rows, cols, in] = use->second;
    std::vector<int64_t> expected{rows};
    if (in != Axis::One) expected.push_back(cols);
    // Formats put the one input channel of a convolution in different places.
    if (rows == 0 || (in == Axis::Taps ? squeezed(tensor.shape) : tensor.shape) == expected) continue;
    fail(ErrorKind::Malformed, "{}: tensor {} has shape [{}], but the metadata says [{}]", spec.file,
         in_quotes(tensor.name), fmt::join(tensor.shape, ", "), fmt::join(expected, ", "));
  }
}

}  // namespace

int64_t ModelSpec::parameters() const {
  int64_t sum = 0;
  for (const auto& weight : weights) sum += weight.out.size() * weight.in.size();
  return sum;
}

const WeightSpec* ModelSpec::find(Role role, int64_t layer) const {
  const int32_t at = index[static_cast<size_t>(layer + 1)][static_cast<size_t>(role)];
  return at < 0 ? nullptr : &weights[static_cast<size_t>(at)];
}

ModelSpec read_model(const Checkpoint& checkpoint) {
  Config config(checkpoint);
  const auto all = families();
  const auto names = [&](const Family* f) { return config.gguf() ? f->gguf : f->model_types; };
  const auto family =
      std::find_if(all.begin(), all.end(), [&](const Family* f) { return is_one_of(names(f), config.family()); });
  if (family == all.end()) {
    std::vector<std::string_view> known;
    for (const Family* f : all) known.insert(known.end(), names(f).begin(), names(f).end());
    fail(ErrorKind::Unsupported, "{}: {} {} is not known; known: {}", config.file(),
         config.gguf() ? "architecture" : "model_type", in_quotes(config.family()), fmt::join(known, ", "));
  }

  config.stand_in((*family)->defaults);
  ModelSpec spec = (*family)->read(config);
  spec.file = config.file();
  spec.architecture = config.family();
  std::array<int32_t, kRoles> none;
  none.fill(-1);
  spec.index.assign(spec.layers.size() + 1, none);
  const std::vector<WeightRule> rules = rules_of(**family);
  Uses uses;
  const std::optional<bool> tied = config.get_bool({"", "tie_word_embeddings"});
  for (WeightRule rule : rules) {
    if (in_layers(rule) || (is_of_layer_inputs(rule.role) && spec.layer_input == 0)) continue;
    if (rule.role == Role::LmHead && tied.value_or(false)) {
      uses[config.tensor_name(rule.role, rule, -1)];  // if it is there it says the same again
      spec.tied_head = true;
      continue;
    }
    if (rule.role == Role::LmHead && tied) rule.optional = false;
    const bool found = bind(rule, -1, config, spec, uses);
    if (rule.role == Role::LmHead) spec.tied_head = !found;
  }
  for (int64_t layer = 0; layer < static_cast<int64_t>(spec.layers.size()); ++layer) {
    for (const WeightRule& rule : rules) {
      if (!in_layers(rule)) continue;
      const LayerSpec& numbers = spec.layers[static_cast<size_t>(layer)];
      if (applies(rule.role, spec, numbers)) {
        bind(rule, layer, config, spec, uses);
      } else if (numbers.kv_layer >= 0) {
        ignore(rule, layer, config, uses);
      }
    }
  }
  for (const WeightRule& rule : rules) {
    if (in_layers(rule)) require_alike(rule, config, spec);
  }
  check_tensors(config, spec, uses);
  return spec;
}

}  // namespace lockstep
