// Finding the family of a checkpoint and binding its rules to the tensors of the file.
#include "model/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/quoted.h"
#include "model/families.h"

namespace lockstep {
namespace {

bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

Dim dim_of(Axis axis, const ModelSpec& spec, const LayerSpec& layer) {
  switch (axis) {
    case Axis::One:
      return {axis, 1, 1};
    case Axis::Model:
      return {axis, spec.hidden, 1};
    case Axis::Heads:
      return {axis, layer.heads, layer.head_dim};
    case Axis::KvHeads:
      return {axis, layer.kv_heads, layer.head_dim};
    case Axis::Ffn:
      return {axis, layer.ffn, 1};
    case Axis::Vocab:
      return {axis, spec.vocab, 1};
    case Axis::Rotary:
      return {axis, layer.rope.rotary / 2, 1};
  }
  return {};
}

// Adds the rule's weight to the spec; false when the file does not have it.
bool bind(const WeightRule& rule, int64_t layer, const Checkpoint& checkpoint, ModelSpec& spec,
          std::set<std::string_view>& used) {
  const std::string name = layer < 0 ? std::string(rule.name) : fmt::format(fmt::runtime(rule.name), layer);
  const TensorInfo* tensor = checkpoint.find(name);
  if (tensor == nullptr) {
    if (rule.optional) return false;
    fail(ErrorKind::NotFound, "{}: tensor {} is missing; a {} model needs it", spec.file, in_quotes(name),
         spec.architecture);
  }
  const LayerSpec& numbers = spec.layers[static_cast<size_t>(std::max<int64_t>(layer, 0))];
  const WeightSpec weight{
      rule.role, layer, name, tensor->dtype, dim_of(rule.out, spec, numbers), dim_of(rule.in, spec, numbers)};
  std::vector<int64_t> expected{weight.out.size()};
  if (rule.in != Axis::One) expected.push_back(weight.in.size());
  if (tensor->shape != expected) {
    fail(ErrorKind::Malformed, "{}: tensor {} has shape [{}], but the metadata says [{}]", spec.file, in_quotes(name),
         fmt::join(tensor->shape, ", "), fmt::join(expected, ", "));
  }
  if (rule.in == Axis::One && weight.dtype != DType::F32 && weight.dtype != DType::F16 && weight.dtype != DType::BF16) {
    fail(ErrorKind::Unsupported, "{}: tensor {} is a vector in {}; vectors may be F32, F16 or BF16", spec.file,
         in_quotes(name), info(weight.dtype).name);
  }
  used.insert(tensor->name);
  spec.index[static_cast<size_t>(layer + 1)][static_cast<size_t>(rule.role)] =
      static_cast<int32_t>(spec.weights.size());
  spec.weights.push_back(weight);
  return true;
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
  const std::string& file = checkpoint.metadata().file();
  const std::string_view architecture = checkpoint.metadata().require_string("general.architecture");
  const auto all = families();
  const auto family =
      std::find_if(all.begin(), all.end(), [&](const Family* f) { return f->architecture == architecture; });
  if (family == all.end()) {
    std::vector<std::string_view> known;
    for (const Family* f : all) known.push_back(f->architecture);
    fail(ErrorKind::Unsupported, "{}: architecture {} is not known; known: {}", file, in_quotes(architecture),
         fmt::join(known, ", "));
  }

  ModelSpec spec = (*family)->read(checkpoint);
  spec.file = file;
  spec.architecture = architecture;
  std::array<int32_t, kRoles> none;
  none.fill(-1);
  spec.index.assign(spec.layers.size() + 1, none);
  std::set<std::string_view> used;
  for (const WeightRule& rule : (*family)->rules) {
    if (rule.name.find("{}") != std::string_view::npos) continue;
    const bool found = bind(rule, -1, checkpoint, spec, used);
    if (rule.role == Role::LmHead) spec.tied_head = !found;
  }
  for (int64_t layer = 0; layer < static_cast<int64_t>(spec.layers.size()); ++layer) {
    for (const WeightRule& rule : (*family)->rules) {
      if (rule.name.find("{}") != std::string_view::npos) bind(rule, layer, checkpoint, spec, used);
    }
  }
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const auto& ignored = (*family)->ignored;
    if (used.contains(tensor.name)) continue;
    if (std::any_of(ignored.begin(), ignored.end(), [&](auto pattern) { return matches(tensor.name, pattern); }))
      continue;
    fail(ErrorKind::Unsupported, "{}: tensor {} is not part of a {} model as this program knows it", file,
         in_quotes(tensor.name), architecture);
  }
  return spec;
}

}  // namespace lockstep
