// The door of model/: what a network is, as values.
//
// A ModelSpec says what every weight axis means, layer by layer, and which numbers vary; it holds no bytes and knows no
// rank, kernel or batch. read_model() finds the family of a checkpoint, lets it read the metadata, and binds its table
// of tensor rules to the tensors of the file: every rule must be found (or be optional), every tensor must be used or
// be on the family's list of ignored names. families/ holds one short file a family; docs/adding-a-family.md is the
// walk.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "tensor/tensor.h"

namespace lockstep {

// What the elements along one side of a weight mean.
enum class Axis : uint8_t {
  One,      // the missing second side of a vector
  Model,    // the residual stream
  Heads,    // query heads, head_dim elements each
  KvHeads,  // key or value heads, head_dim elements each
  Ffn,      // the inner width of a feed-forward
  Vocab,
  Rotary,  // one element for each rotated pair
};

// One side of a weight: `units` pieces that may not be cut, `unit` elements each.
struct Dim {
  Axis axis = Axis::One;
  int64_t units = 1;
  int64_t unit = 1;
  int64_t size() const { return units * unit; }
};

// What a weight does in its layer.
enum class Role : uint8_t {
  TokenEmbedding,
  RopeFactors,
  AttnNorm,
  AttnQ,
  AttnQBias,
  AttnK,
  AttnKBias,
  AttnV,
  AttnVBias,
  AttnOutput,
  AttnOutputBias,
  FfnNorm,
  FfnGate,
  FfnGateBias,
  FfnUp,
  FfnUpBias,
  FfnDown,
  FfnDownBias,
  OutputNorm,
  LmHead,
};
inline constexpr int kRoles = static_cast<int>(Role::LmHead) + 1;

struct WeightSpec {
  Role role = Role::TokenEmbedding;
  int64_t layer = -1;  // -1: outside the layers
  std::string name;    // in the checkpoint
  DType dtype = DType::F32;
  Dim out;  // rows
  Dim in;   // columns; Axis::One for vectors
};

// Rotary position embedding, arXiv 2104.09864, and the ways of stretching it over longer contexts.
struct RopeSpec {
  enum class Scaling : uint8_t { None, Linear, Yarn };
  enum class Pairs : uint8_t { Adjacent, Halves };  // which two elements are rotated together
  Pairs pairs = Pairs::Halves;
  int64_t rotary = 0;  // elements of a head that are rotated, even
  double base = 10000;
  Scaling scaling = Scaling::None;
  double factor = 1;
  int64_t original_context = 0;  // Yarn
  double attention_factor = 1;   // Yarn: multiplies cosine and sine
  double beta_fast = 32, beta_slow = 1;
};

// Radians a position for each pair: [rotary / 2]. Yarn: arXiv 2309.00071. A checkpoint's own divisors
// (Role::RopeFactors, the Llama 3 kind) come on top: frequency[i] / factors[i].
std::vector<double> rope_frequencies(const RopeSpec& rope);

struct LayerSpec {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads; query head q reads KV head q / (heads / kv_heads)
  int64_t head_dim = 0;
  int64_t ffn = 0;
  float score_scale = 1;  // multiplies q . k
  RopeSpec rope;
};

struct ModelSpec {
  std::string file;
  std::string architecture;  // "llama"
  int64_t hidden = 0;
  int64_t vocab = 0;
  int64_t context = 0;  // positions the model was made for
  float norm_eps = 0;
  bool tied_head = false;  // the head is the embedding
  std::vector<LayerSpec> layers;
  std::vector<WeightSpec> weights;  // in rule order, layer by layer
  std::vector<std::array<int32_t, kRoles>>
      index;  // [layers + 1, roles] -> weights, or -1; the first row: outside layers

  int64_t parameters() const;
  // The weight of a role, or nullptr when the model has none.
  const WeightSpec* find(Role role, int64_t layer = -1) const;
};

// One line of a family's table. In `name`, "{}" stands for the layer's number; a name without it stands outside the
// layers.
struct WeightRule {
  Role role;
  std::string_view name;
  Axis out;
  Axis in = Axis::One;
  bool optional = false;
};

struct Family {
  std::string_view architecture;
  std::span<const WeightRule> rules;
  std::span<const std::string_view> ignored;  // names, "*" at the end stands for any rest
  // Fills everything but `weights` and `tied_head`. Throws Error that names the file, the key and the allowed values.
  ModelSpec (*read)(const Checkpoint& checkpoint);
};

// Throws Error(Unsupported | Malformed | NotFound) that names the file and the key, tensor or value.
ModelSpec read_model(const Checkpoint& checkpoint);

}  // namespace lockstep
