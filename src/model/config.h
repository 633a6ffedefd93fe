// What a checkpoint says of its model's numbers, by one name for all formats, and the numbers that all dense families
// have.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"

namespace lockstep {

// One number's names: in GGUF without the architecture before it ("embedding_length" for "llama.embedding_length"), in
// config.json within the object `group` ("rope_scaling.", with its dot). Empty: that format has no such number.
struct Key {
  std::string_view gguf;
  std::string_view hugging_face;
  std::string_view group = {};
};

// A view of a checkpoint's metadata; `checkpoint` must outlive it. Reads throw as those of Metadata do.
class Config {
 public:
  explicit Config(const Checkpoint& checkpoint);
  // Numbers that are read from now on where config.json has none.
  void stand_in(std::span<const Default> defaults) { defaults_ = defaults; }

  bool gguf() const { return gguf_; }
  const std::string& file() const;
  // general.architecture, or model_type of the text part.
  std::string_view family() const { return family_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }

  // As the file has it: for messages. Empty for a number that the format does not have.
  std::string name(Key key) const;
  bool contains(Key key) const;  // the file has it, a default does not count
  std::optional<int64_t> get_int(Key key, int64_t min, int64_t max) const;
  std::optional<double> get_float(Key key) const;
  std::optional<bool> get_bool(Key key) const;
  std::optional<std::string_view> get_string(Key key) const;
  std::span<const std::string_view> get_strings(Key key) const;
  std::span<const int64_t> get_ints(Key key) const;
  std::vector<bool> get_bools(Key key) const;
  int64_t require_int(Key key, int64_t min, int64_t max) const;
  double require_float(Key key) const;
  bool is_string(Key key) const;
  // Whether the number is a list.
  bool is_list(Key key) const;
  // Throws unless a list of `found` entries has one for each layer.
  void require_one_a_layer(Key key, size_t found, size_t layers) const;
  // One number for each layer: from a list of as many, or one number for all. Empty when the file does not say.
  std::vector<int64_t> each_layer(Key key, size_t layers, int64_t min, int64_t max) const;

  // get_float, or `otherwise`; refuses what is not above `limit`.
  double above(double limit, Key key, double otherwise) const;

  // A tensor's name in this file: what stands before "layers" differs in Hugging Face files.
  std::string tensor_name(Role role, const WeightRule& rule, int64_t layer) const;

 private:
  const Checkpoint& checkpoint_;
  bool gguf_ = false;
  std::string_view family_;
  std::string prefix_;  // of keys
  std::span<const Default> defaults_;
  std::optional<double> default_of(Key key) const;

  std::string stem_, head_;  // before "layers" and "lm_head"
};

inline constexpr int64_t kMostWidth = 1 << 24;  // products of two widths stay far inside 64 bits

// Blocks of a GGUF file behind the model's own layers, which predict more tokens than one.
inline constexpr Key kPredictedLayers{"nextn_predict_layers", ""};

// The rotary embedding of a head. `group`: the object of config.json that says it ("rope_parameters.full_attention."),
// where there are several.
RopeSpec read_rope(const Config& config, int64_t head_dim, std::string_view group = {});

// The root of a width, with which Gemma's embeddings are multiplied: rounded to bfloat16 as it was trained, but not in
// GGUF nor where the embedding is F32, as others have it.
float scale_of_embedding(const Config& config, int64_t width);

// Heads of keys and values, at most `heads`, which they must divide; `heads` where the file does not say.
int64_t read_kv_heads(const Config& config, Key key, int64_t heads);

// Which layers see all of the context: by layer_types, whose other kind is `other`, or a list of those that do not (in
// GGUF); else every layer of a number that `period` divides, `usual` where the file does not say.
std::vector<bool> full_attention_layers(const Config& config, size_t layers, std::string_view other, Key period,
                                        int64_t usual);

// Everything that the dense families share; layers are alike, and see all of the context.
ModelSpec read_dense(const Config& config);

// Where use_sliding_window is true, gives sliding_window to the layers that layer_types says or, where the file has no
// such list, to those of `usual`.
void read_windows(const Config& config, std::vector<bool> usual, ModelSpec& spec);

// That of Qwen2 and Qwen3: the layers from max_window_layers on.
ModelSpec read_dense_with_windows(const Config& config);

}  // namespace lockstep
