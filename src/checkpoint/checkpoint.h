// The door of checkpoint/: what is in the files people have, as names, byte ranges and metadata.
//
// A Checkpoint maps its files and checks every count, length, offset, alignment, dimension and type before using it;
// nothing is allocated by the size a header claims. It knows no family and no rank.
// metadata.cc          typed reads of keys
// gguf_file.cc         one GGUF file (v2, v3), parsed and checked
// gguf_checkpoint.cc   the files of a GGUF checkpoint, split or not, joined
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

// One metadata value. Integers of every width are widened; strings point into the mapped file.
using MetadataScalar = std::variant<bool, int64_t, uint64_t, double, std::string_view>;
struct MetadataValue {
  std::variant<MetadataScalar, std::vector<bool>, std::vector<int64_t>, std::vector<double>,
               std::vector<std::string_view>>
      value;
};

// Keys and values with typed reads. The get_* functions throw Error(Malformed) that names the file, the key, the type
// found and the type wanted when the key is there with another type or outside the range; `require` variants throw
// Error(NotFound) when it is absent.
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

 private:
  std::string file_;
  std::map<std::string, MetadataValue, std::less<>> entries_;
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;  // outermost first: a matrix is [rows, cols], its rows contiguous
  int64_t elements = 0;
  std::span<const std::byte> bytes;  // in the mapped file; weights are copied with Checkpoint::read()
};

// Reading from several threads is safe.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  // Throws Error(NotFound | Io | Malformed | Unsupported) that names the file and the thing.
  static std::unique_ptr<Checkpoint> open(const std::filesystem::path& path);

  virtual std::string_view format() const = 0;  // "GGUF v3"
  virtual const Metadata& metadata() const = 0;
  virtual std::span<const TensorInfo> tensors() const = 0;          // in file order
  virtual const TensorInfo* find(std::string_view name) const = 0;  // nullptr when absent
  virtual int64_t file_bytes() const = 0;                           // of all its files
  virtual std::vector<std::filesystem::path> files() const = 0;     // in the order of a split
  // Copies bytes of a tensor (any part of TensorInfo::bytes), without touching the mapping. Throws Error(Io) that names
  // the file when they cannot be read or are no longer there.
  virtual void read(std::span<const std::byte> bytes, std::byte* to) const = 0;
};

}  // namespace lockstep
