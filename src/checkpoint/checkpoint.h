// The door of checkpoint/: what is in the files people have, as names, byte ranges and metadata.
//
// A Checkpoint maps its files and checks every count, length, offset, alignment, dimension and type before using it;
// nothing is allocated by the size a header claims. It knows no family and no rank.
// metadata.cc                 typed reads of keys
// gguf_file.cc                one GGUF file (v2, v3), parsed and checked
// gguf_checkpoint.cc          the files of a GGUF checkpoint, split or not, joined
// safetensors_file.cc         one safetensors file, parsed and checked
// safetensors_checkpoint.cc   config.json and one safetensors file or the shards of an index, joined
// hf_config.cc                config.json as metadata; the index
// mlx_quantization.cc         MLX's codes, scales and biases as one tensor
// json_reader.cc, header_budget.cc, mapped_files.cc   what they stand on
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace lockstep {

// One metadata value. Integers of every width are widened; strings belong to the checkpoint.
using MetadataScalar = std::variant<bool, int64_t, uint64_t, double, std::string_view>;
struct UnreadableList {};  // of several kinds, or of lists and objects
struct MetadataValue {
  std::variant<MetadataScalar, std::vector<bool>, std::vector<int64_t>, std::vector<double>,
               std::vector<std::string_view>, UnreadableList>
      value;
};

// Keys and values with typed reads. Of Hugging Face files: those of config.json, nested objects joined by dots, and
// after "generation." those of generation_config.json. The get_* functions throw Error(Malformed) that names the file,
// the key, the type found and the type wanted when the key is there with another type or outside the range; `require`
// variants throw Error(NotFound) when it is absent.
class Metadata {
 public:
  explicit Metadata(std::string file) : file_(std::move(file)) {}

  // Throws Error(Malformed) for a key that is already there.
  void insert(std::string key, MetadataValue value);
  bool contains(std::string_view key) const;
  const MetadataValue* find(std::string_view key) const;
  const std::map<std::string, MetadataValue, std::less<>>& entries() const { return entries_; }
  const std::string& file() const { return file_; }

  std::optional<int64_t> get_int(std::string_view key, int64_t min, int64_t max) const;
  std::optional<double> get_float(std::string_view key) const;  // integers are accepted; NaN and infinity are refused
  std::optional<bool> get_bool(std::string_view key) const;
  std::optional<std::string_view> get_string(std::string_view key) const;
  int64_t require_int(std::string_view key, int64_t min, int64_t max) const;
  double require_float(std::string_view key) const;
  std::string_view require_string(std::string_view key) const;
  // Empty when absent.
  std::span<const std::string_view> get_strings(std::string_view key) const;
  std::span<const int64_t> get_ints(std::string_view key) const;
  std::span<const double> get_floats(std::string_view key) const;
  std::vector<bool> get_bools(std::string_view key) const;

 private:
  std::string file_;
  std::map<std::string, MetadataValue, std::less<>> entries_;
};

// How tensors and numbers are called.
enum class Naming : uint8_t {
  Gguf,         // "blk.0.attn_q.weight", "llama.block_count"
  HuggingFace,  // "model.layers.0.self_attn.q_proj.weight", "num_hidden_layers"; nested objects of config.json with
                // dots
};

// A run of a tensor's stored bytes: of every block, in row-major order, `block_bytes` bytes, which belong at `offset`
// within the block. GGUF tensors and plain ones have one part, which is all of it; MLX keeps codes, scales and biases
// apart.
struct TensorPart {
  std::span<const std::byte> bytes;  // in the mapped file; weights are copied with Checkpoint::read()
  int64_t block_bytes = 0;
  int64_t offset = 0;
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;  // outermost first: a matrix is [rows, cols], its rows contiguous
  int64_t elements = 0;
  std::vector<TensorPart> parts;  // together all bytes of every block
  int64_t bytes() const;          // of all parts
};

// A tensor in a format that no weight can have, such as I64. It can be listed and ignored.
struct UnusableTensor {
  std::string name;
  std::string_view dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// Reading from several threads is safe.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  // `path`: a GGUF file (the first one of a split), or a folder with config.json and safetensors, or its .safetensors
  // or index file. Throws Error(NotFound | Io | Malformed | Unsupported) that names the file and the thing.
  static std::unique_ptr<Checkpoint> open(const std::filesystem::path& path);

  virtual std::string_view format() const = 0;  // "GGUF v3", "safetensors"
  virtual Naming naming() const = 0;
  virtual const Metadata& metadata() const = 0;
  virtual std::span<const TensorInfo> tensors() const = 0;  // in file order
  virtual std::span<const UnusableTensor> unusable() const { return {}; }
  // nullptr when absent. Throws Error(Unsupported) for an unusable tensor, which is wanted as a weight.
  virtual const TensorInfo* find(std::string_view name) const = 0;
  virtual int64_t file_bytes() const = 0;                        // of all its files
  virtual std::vector<std::filesystem::path> files() const = 0;  // of tensors, in their order
  // Copies bytes of a tensor (any run of one of its parts), without touching the mapping. Throws Error(Io) that names
  // the file when they cannot be read or are no longer there.
  virtual void read(std::span<const std::byte> bytes, std::byte* to) const = 0;
};

}  // namespace lockstep
