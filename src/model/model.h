// The door of model/: what a network is, as values.
//
// A ModelSpec says what every weight axis means, layer by layer, and which numbers vary; it holds no bytes and knows no
// rank, kernel or batch. read_model() finds the family of a checkpoint, lets it read the metadata, and binds its table
// of tensor rules to the tensors of the file: every rule must be found (or be optional), every tensor must be used or
// be on the list of ignored names. families/ holds one short file a family; docs/adding-a-family.md is the walk.
// config.h   metadata by one name for all formats, and what all dense families have
// roles.cc   names and axes of the roles
// rope.cc    frequencies
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
  Rotary,       // one element for each rotated pair
  HeadDim,      // the elements of one head, alike for all heads
  HeadScalars,  // one element for each query (or value) head
  Taps,         // of a causal convolution along the sequence
  LayerVocab,   // entries of the embedding that every layer has a part of
  LayerInputs,  // what every layer takes from that embedding, layer by layer
  LayerInput,   // what one layer takes
};

// One side of a weight: `units` pieces that may not be cut, `unit` elements each. Its elements are counted in the order
// of the network. A file may hold them in another: cut into runs of `run` elements, they stand in `tiles` tiles, the
// first tile having runs 0, tiles, 2 tiles, ... of the network.
struct Dim {
  Axis axis = Axis::One;
  int64_t units = 1;
  int64_t unit = 1;
  int64_t tiles = 1;
  int64_t run = 0;  // where tiles > 1; divides size() / tiles
  int64_t size() const { return units * unit; }
  // Where the file has an element.
  int64_t stored(int64_t element) const {
    if (tiles == 1) return element;
    const int64_t at = element / run;
    return (at % tiles * (size() / run / tiles) + at / tiles) * run + element % run;
  }
  // How many elements from this one on stand side by side in the file as well.
  int64_t together(int64_t element) const { return tiles == 1 ? size() - element : run - element % run; }
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
  AttnQNorm,  // of each query head
  AttnKNorm,  // of each key head
  AttnOutput,
  AttnOutputBias,
  // A gated delta net: Q and K have key heads, V, Gate and what follows from them value heads.
  DeltaQ,
  DeltaK,
  DeltaV,
  DeltaConvQ,  // convolutions of the three, channel by channel
  DeltaConvK,
  DeltaConvV,
  DeltaGate,      // of the output
  DeltaBeta,      // how much of the new value is written
  DeltaDecay,     // how much of the state is kept
  DeltaRate,      // of the decay, negative
  DeltaTimeBias,  // added to the decay's input
  DeltaNorm,      // of each value head
  DeltaOutput,
  AttnPostNorm,  // of what attention adds to the residual stream
  FfnNorm,
  FfnGate,
  FfnGateBias,
  FfnUp,
  FfnUpBias,
  FfnDown,
  FfnDownBias,
  FfnPostNorm,  // of what the feed-forward adds to the residual stream
  // Gemma's inputs of each layer: an embedding and a projection of the model's input, gated by the residual stream.
  LayerInputGate,
  LayerInputOutput,
  LayerInputNorm,  // of what that adds to the residual stream
  LayerScale,      // one number that multiplies the residual stream at the layer's end
  LayerInputEmbedding,
  LayerInputProjection,
  LayerInputProjectionNorm,  // of each layer's part
  OutputNorm,
  LmHead,
};
inline constexpr int kRoles = static_cast<int>(Role::LmHead) + 1;

struct WeightSpec {
  Role role = Role::TokenEmbedding;
  int64_t layer = -1;     // -1: outside the layers
  std::string name;       // in the checkpoint
  int64_t first_row = 0;  // of this weight in the checkpoint's tensor, which may hold several weights one above another
  DType dtype = DType::F32;
  Dim out;  // rows
  Dim in;   // columns; Axis::One for vectors
};

// Rotary position embedding, arXiv 2104.09864, and the ways of stretching it over longer contexts.
struct RopeSpec {
  enum class Scaling : uint8_t { None, Linear, Llama3, Yarn, Proportional };
  enum class Pairs : uint8_t { Adjacent, Halves };  // which two elements are rotated together
  Pairs pairs = Pairs::Halves;
  int64_t rotary = 0;  // elements of a head that are rotated, even; 0: the layer knows no positions
  double base = 10000;
  Scaling scaling = Scaling::None;
  double factor = 1;
  int64_t original_context = 0;                  // Llama3, Yarn
  int64_t turning = 0;                           // Proportional: pairs that are rotated; the others keep their angle
  double low_frequency = 1, high_frequency = 4;  // Llama3: full turns over the original context
  double attention_factor = 1;                   // Yarn: multiplies cosine and sine
  double beta_fast = 32, beta_slow = 1;
  bool factors = true;  // the checkpoint's own divisors, where it has some (Role::RopeFactors), are for this rope
};

// Radians a position for each pair: [rotary / 2]. Yarn: arXiv 2309.00071; Llama3: as Llama 3.1's config.json is read. A
// checkpoint's own divisors (GGUF: the Llama 3 kind, Gemma 4) come on top: frequency[i] / factors[i].
std::vector<double> rope_frequencies(const RopeSpec& rope);

// Between the gate and up halves of a feed-forward: out = activation(gate) * up.
enum class Activation : uint8_t { Silu, GeluTanh };

// What mixes positions. GatedDelta: arXiv 2412.06464, as Qwen3-Next and Qwen3.5 use it; its value heads are the query
// heads here, and its key heads the KV heads.
enum class Mixer : uint8_t { Attention, GatedDelta };

struct LayerSpec {
  Mixer mixer = Mixer::Attention;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads; query head q reads KV head q / (heads / kv_heads)
  int64_t head_dim = 0;
  int64_t key_dim = 0;      // GatedDelta: elements of a key head
  int64_t taps = 0;         // GatedDelta: of its convolutions
  int64_t tile_run = 0;     // GatedDelta: of value heads in tiles, see key_head_of(); 0: a key head's stand together
  bool query_gate = false;  // attention: AttnQ gives, head by head, the query and a gate of the output
  int64_t ffn = 0;
  float score_scale = 1;         // multiplies q . k
  float score_cap = 0;           // soft cap of scaled scores: cap * tanh(score / cap); 0: none
  int64_t window = 0;            // a row sees its own position and the window - 1 before it; 0: all
  bool value_norm = false;       // value heads are normed too, without weights
  bool keys_are_values = false;  // before norm and rotation
  int64_t kv_layer = -1;         // the layer whose keys and values are read; -1: its own
  bool norm_after_rope = false;  // per-head norms of q and k
  Activation activation = Activation::Silu;
  RopeSpec rope;
};

// The KV (or key) head that a query (or value) head reads. Value heads of a gated delta net may stand in tiles, one for
// each value head of a key head; runs of `tile_run` key heads then take turns, tile by tile.
inline int64_t key_head_of(const LayerSpec& layer, int64_t head) {
  const int64_t group = layer.heads / layer.kv_heads;
  if (layer.tile_run == 0) return head / group;
  return head / (group * layer.tile_run) * layer.tile_run + head % layer.tile_run;
}

// Whether ModelSpec::norm_offset is added to what is stored.
inline bool has_norm_offset(Role role) {
  switch (role) {
    case Role::AttnNorm:
    case Role::AttnQNorm:
    case Role::AttnKNorm:
    case Role::AttnPostNorm:
    case Role::FfnNorm:
    case Role::FfnPostNorm:
    case Role::OutputNorm:
      return true;
    default:
      return false;
  }
}

// Small weights that are held as floats: vectors, and the taps of convolutions.
inline bool held_as_floats(const WeightSpec& weight) {
  return weight.in.axis == Axis::One || weight.in.axis == Axis::Taps;
}

struct ModelSpec {
  std::string file;
  std::string architecture;  // "llama"
  int64_t hidden = 0;
  int64_t vocab = 0;
  int64_t context = 0;  // positions the model was made for
  float norm_eps = 0;
  float norm_offset = 0;            // added to the stored weight of every norm (Gemma stores w - 1)
  bool rates_are_logs = false;      // DeltaRate is stored as the logarithm of its size
  float embedding_scale = 1;        // multiplies what is looked up
  float residual_scale = 1;         // multiplies what attention and feed-forward add to the residual stream
  float logit_scale = 1;            // multiplies logits
  float logit_cap = 0;              // soft cap of scaled logits; 0: none
  int64_t layer_vocab = 0;          // Axis::LayerVocab; 0: layers have no inputs of their own
  int64_t layer_input = 0;          // Axis::LayerInput
  float layer_embedding_scale = 1;  // multiplies what is looked up for layers
  bool tied_head = false;           // the head is the embedding
  std::vector<LayerSpec> layers;
  std::vector<WeightSpec> weights;  // in rule order, layer by layer
  std::vector<std::array<int32_t, kRoles>>
      index;  // [layers + 1, roles] -> weights, or -1; the first row: outside layers

  int64_t parameters() const;
  // The weight of a role, or nullptr when the model has none.
  const WeightSpec* find(Role role, int64_t layer = -1) const;
};

// One line of a family's table: a role, and whether every file has it. Axes of roles are the same in all families,
// names mostly (model/roles.cc); a name here stands instead of the usual one. In names, "{}" stands for the layer's
// number.
struct WeightRule {
  Role role;
  bool optional = false;
  std::string_view hugging_face = {};  // without what stands before "layers" or "embed_tokens"
  std::string_view gguf = {};
};

class Config;

// What config.json means where it leaves a number out: the defaults of the family's class, which files saved from
// multimodal classes do not repeat.
struct Default {
  std::string_view hugging_face;  // without its group
  double value = 0;
};

// What the files call a family, which weights it has beside those of every dense model (roles.cc), and how its numbers
// are read. A rule for a role that every dense model has stands instead of the usual one.
struct Family {
  std::string_view name;                          // that of its file
  std::span<const std::string_view> gguf;         // values of general.architecture
  std::span<const std::string_view> model_types;  // values of config.json's model_type, of the text part
  std::span<const WeightRule> rules;
  // Fills everything but `weights` and `tied_head`. Throws Error that names the file, the key and the allowed values.
  ModelSpec (*read)(const Config& config);
  std::span<const Default> defaults = {};
};

// Throws Error(Unsupported | Malformed | NotFound) that names the file and the key, tensor or value.
ModelSpec read_model(const Checkpoint& checkpoint);

}  // namespace lockstep
