// MLX's quantised matrices: X.weight (packed codes), X.scales and X.biases become one tensor of blocks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/mapped_files.h"
#include "checkpoint/safetensors_file.h"

namespace lockstep {

// What MLX's `quantization` block in config.json says: {group_size, bits, mode} for the model, and under a module's
// path other numbers for it, or false where it is not quantised. A number that is missing is the usual one of the mode,
// a mode that is missing is affine.
class MlxQuantization {
 public:
  // `metadata`, which must outlive this, is config.json's, flattened. Throws Error(Unsupported) for a model that is
  // quantised in another way (GPTQ, AWQ, ...).
  explicit MlxQuantization(const Metadata& metadata);

  // Is there such a block?
  bool given() const { return !block_.empty(); }

  struct Format {
    MlxMode mode = MlxMode::Affine;
    int bits = 0;
    int group = 0;
  };
  // How the module's weight is quantised; nothing when it is not. Throws Error(Malformed | Unsupported).
  std::optional<Format> format_of(std::string_view module) const;

 private:
  const Metadata& metadata_;
  std::string block_;  // "quantization"; empty: there is none
};

// The tensors of a checkpoint as weights see them, in the order they come in.
struct JoinedTensors {
  std::vector<TensorInfo> tensors;
  std::vector<UnusableTensor> unusable;  // in formats that no weight can have
};

// `files` holds the tensors' bytes. Throws Error(Malformed | NotFound | Unsupported) for scales and biases that are
// missing or do not fit.
JoinedTensors join_tensors(std::vector<SafetensorsTensor> tensors, const MlxQuantization& quantization,
                           const MappedFiles& files);

}  // namespace lockstep
