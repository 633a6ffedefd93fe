// Joins config.json, generation_config.json and the safetensors files of a checkpoint.
#include "checkpoint/safetensors_checkpoint.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/mapped_files.h"
#include "checkpoint/mlx_quantization.h"
#include "checkpoint/safetensors_file.h"

namespace lockstep {
namespace {

constexpr std::string_view kTensorsEnding = ".safetensors";
constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr const char* kTensorsName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;  // what cannot be looked at is reported when it is opened
  return std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
}

// The safetensors files of a checkpoint, one after the other.
class Shards {
 public:
  explicit Shards(HeaderBudget& budget) : budget_(budget) {}

  void add(const std::filesystem::path& path) {
    MappedFile file(path);
    auto tensors = parse_safetensors(file.bytes(), file.path(), budget_);
    for (const SafetensorsTensor& tensor : tensors) {
      const auto [place, inserted] = file_of_.emplace(tensor.name, file.path());
      if (!inserted) {
        fail(ErrorKind::Malformed, "{}: tensor {} is also in {}; each may be in one file", file.path(),
             in_quotes(tensor.name), place->second);
      }
    }
    tensors_.insert(tensors_.end(), std::make_move_iterator(tensors.begin()), std::make_move_iterator(tensors.end()));
    files_.add(std::move(file));
  }

  // The shards of the index, in the order of their names.
  void add_index(const std::filesystem::path& path) {
    const MappedFile index(path);
    for (const auto& [shard, names] : parse_index(index.bytes(), index.path(), budget_)) {
      const std::filesystem::path file = path.parent_path() / shard;
      add(file);
      for (const std::string& name : names) {
        const auto place = file_of_.find(name);
        if (place == file_of_.end() || place->second != file.string()) {
          fail(ErrorKind::NotFound, "{}: its weight_map says that tensor {} is in {}, where it is not", index.path(),
               in_quotes(name), in_quotes(shard));
        }
      }
    }
  }

  const MappedFiles& files() const { return files_; }
  std::vector<SafetensorsTensor> take_tensors() { return std::move(tensors_); }
  MappedFiles take_files() { return std::move(files_); }

 private:
  HeaderBudget& budget_;
  MappedFiles files_;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, std::string> file_of_;  // of every tensor
};

class SafetensorsCheckpoint final : public Checkpoint {
 public:
  SafetensorsCheckpoint(HfConfig config, JoinedTensors tensors, MappedFiles files)
      : config_(std::move(config)), tensors_(std::move(tensors)), files_(std::move(files)) {
    for (const TensorInfo& tensor : tensors_.tensors) index_.emplace(tensor.name, &tensor);
  }

  std::string_view format() const override { return "safetensors"; }
  Naming naming() const override { return Naming::HuggingFace; }
  const Metadata& metadata() const override { return config_.metadata(); }
  std::span<const TensorInfo> tensors() const override { return tensors_.tensors; }
  std::span<const UnusableTensor> unusable() const override { return tensors_.unusable; }
  const TensorInfo* find(std::string_view name) const override;
  int64_t file_bytes() const override { return files_.bytes(); }
  std::vector<std::filesystem::path> files() const override { return files_.paths(); }
  void read(std::span<const std::byte> bytes, std::byte* to) const override { files_.read(bytes, to); }

 private:
  const HfConfig config_;
  const JoinedTensors tensors_;
  const MappedFiles files_;
  std::map<std::string_view, const TensorInfo*> index_;  // views of the names in tensors_
};

const TensorInfo* SafetensorsCheckpoint::find(std::string_view name) const {
  if (const auto place = index_.find(name); place != index_.end()) return place->second;
  for (const UnusableTensor& tensor : tensors_.unusable) {
    if (tensor.name != name) continue;
    fail(
        ErrorKind::Unsupported,
        "{}: tensor {} is {}; a weight may be F32, F16 or BF16, or U32 codes as MLX's quantization in config.json says",
        files_.with(tensor.bytes).path(), in_quotes(name), tensor.dtype);
  }
  return nullptr;
}

void add_config(HfConfig& config, const std::filesystem::path& path, std::string_view prefix, HeaderBudget& budget) {
  const MappedFile file(path);
  config.add(file.bytes(), file.path(), prefix, budget);
}

// The index or the one file of a folder.
std::filesystem::path tensors_of(const std::filesystem::path& folder) {
  for (const char* name : {kTensorsName, kIndexName}) {
    if (is_there(folder / name)) return folder / name;
  }
  fail(ErrorKind::NotFound, "{}: it is a folder without {} and {}; to open a GGUF file, name the file", folder.string(),
       kTensorsName, kIndexName);
}

}  // namespace

bool is_safetensors_name(const std::filesystem::path& path) {
  return path.string().ends_with(kTensorsEnding) || path.string().ends_with(kIndexEnding);
}

std::unique_ptr<Checkpoint> open_safetensors(const std::filesystem::path& path) {
  std::error_code ignored;  // what cannot be looked at is reported when it is opened
  const std::filesystem::path tensors = std::filesystem::is_directory(path, ignored) ? tensors_of(path) : path;
  const std::filesystem::path folder = tensors.parent_path();
  const bool one_file = !tensors.string().ends_with(kIndexEnding);
  if (one_file && tensors.filename().string().find("-of-") != std::string::npos && is_there(folder / kIndexName)) {
    fail(ErrorKind::Usage, "{}: it is one shard of a model; open {} or its folder", tensors.string(),
         (folder / kIndexName).string());
  }
  const auto config_path = folder / "config.json";
  if (!is_there(config_path)) {
    fail(ErrorKind::NotFound, "{}: there is no config.json beside it; it says what the tensors are", tensors.string());
  }
  HeaderBudget budget;
  HfConfig config(config_path.string());
  add_config(config, config_path, "", budget);
  const auto generation_path = folder / "generation_config.json";
  if (is_there(generation_path)) add_config(config, generation_path, "generation.", budget);
  const MlxQuantization quantization(config.metadata());

  Shards shards(budget);
  if (one_file) {
    shards.add(tensors);
  } else {
    shards.add_index(tensors);
  }
  JoinedTensors joined = join_tensors(shards.take_tensors(), quantization, shards.files());
  return std::make_unique<SafetensorsCheckpoint>(std::move(config), std::move(joined), shards.take_files());
}

}  // namespace lockstep
