// Reading the quantization block, and joining codes, scales and biases.
#include "checkpoint/mlx_quantization.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"

namespace lockstep {
namespace {

struct ModeInfo {
  std::string_view name;
  MlxMode mode;
  int bits, group;  // the usual ones
};
constexpr auto kModes = std::to_array<ModeInfo>({
    {"affine", MlxMode::Affine, 4, 64},
    {"mxfp4", MlxMode::Mxfp4, 4, 32},
    {"mxfp8", MlxMode::Mxfp8, 8, 32},
    {"nvfp4", MlxMode::Nvfp4, 4, 16},
});

constexpr int64_t kMostNumber = 1 << 16;  // of bits and groups, as numbers; which exist is the table's affair
constexpr std::string_view kWeight = ".weight";

std::string_view name_of(MlxMode mode) {
  return std::find_if(kModes.begin(), kModes.end(), [&](const auto& known) { return known.mode == mode; })->name;
}

}  // namespace

MlxQuantization::MlxQuantization(const Metadata& metadata) : metadata_(metadata) {
  const auto has = [&](const std::string& block) {
    const std::string keys = block + ".";
    const auto place = metadata.entries().lower_bound(keys);
    return place != metadata.entries().end() && place->first.starts_with(keys);
  };
  if (has("quantization")) {
    block_ = "quantization";
    return;
  }
  for (const std::string block : {"quantization_config", "text_config.quantization_config"}) {
    if (!has(block)) continue;
    const auto method = metadata.get_string(block + ".quant_method");
    if (method || !metadata.contains(block + ".bits")) {
      fail(ErrorKind::Unsupported,
           "{}: {} has quant_method {}, which cannot be run; what can: no quantisation, or MLX's with bits, group_size "
           "and mode",
           metadata.file(), block, in_quotes(method.value_or("")));
    }
    block_ = block;
    return;
  }
}

std::optional<MlxQuantization::Format> MlxQuantization::format_of(std::string_view module) const {
  if (!given()) return std::nullopt;
  std::string at = fmt::format("{}.{}", block_, module);
  const MetadataValue* own = metadata_.find(at);
  if (own != nullptr && !metadata_.get_bool(at).value_or(true)) return std::nullopt;
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", at, name); };
  if (!metadata_.contains(key("bits")) && !metadata_.contains(key("group_size")) && !metadata_.contains(key("mode"))) {
    at = block_;
  }
  const std::string_view mode = metadata_.get_string(key("mode")).value_or("affine");
  const auto known = std::find_if(kModes.begin(), kModes.end(), [&](const auto& info) { return info.name == mode; });
  if (known == kModes.end()) {
    fail(ErrorKind::Unsupported, "{}: {} is {}; known are affine, mxfp4, mxfp8 and nvfp4", metadata_.file(),
         key("mode"), in_quotes(mode));
  }
  const auto number = [&](std::string_view name, int usual) {
    return static_cast<int>(metadata_.get_int(key(name), 1, kMostNumber).value_or(usual));
  };
  const Format format{known->mode, number("bits", known->bits), number("group_size", known->group)};
  if (!mlx_dtype(format.mode, format.bits, format.group, DType::F32)) {
    std::string allowed = fmt::format("{} bits in groups of {}", known->bits, known->group);
    if (format.mode == MlxMode::Affine) {
      allowed =
          fmt::format("{} bits in groups of {}", fmt::join(kMlxAffineBits, ", "), fmt::join(kMlxAffineGroups, ", "));
    }
    fail(ErrorKind::Unsupported, "{}: {} says {} bits in groups of {}; {} has {}", metadata_.file(), in_quotes(at),
         format.bits, format.group, mode, allowed);
  }
  if (metadata_.get_bool(key("global_scale")).value_or(false)) {
    fail(ErrorKind::Unsupported, "{}: {} is true; scales of whole matrices cannot be run", metadata_.file(),
         key("global_scale"));
  }
  return format;
}

namespace {

using TensorMap = std::map<std::string_view, const SafetensorsTensor*>;

// Joins one matrix; `parts` receives the names of the tensors that are no tensors of their own any more.
class Joiner {
 public:
  Joiner(const TensorMap& tensors, const MappedFiles& files, std::set<std::string_view>& parts)
      : tensors_(tensors), files_(files), parts_(parts) {}

  TensorInfo join(const SafetensorsTensor& codes, const std::string& module, const MlxQuantization::Format& format);

 private:
  template <class... Args>
  [[noreturn]] void refuse(ErrorKind kind, const SafetensorsTensor& tensor, fmt::format_string<Args...> format,
                           Args&&... args) const {
    fail(kind, "{}: tensor {}: {}", files_.with(tensor.bytes).path(), in_quotes(tensor.name),
         fmt::format(format, std::forward<Args>(args)...));
  }
  // The scales or biases of the codes, which have that shape.
  const SafetensorsTensor& part(const SafetensorsTensor& codes, const std::string& name,
                                const std::vector<int64_t>& shape) const;

  const TensorMap& tensors_;
  const MappedFiles& files_;
  std::set<std::string_view>& parts_;
};

const SafetensorsTensor& Joiner::part(const SafetensorsTensor& codes, const std::string& name,
                                      const std::vector<int64_t>& shape) const {
  const auto place = tensors_.find(name);
  if (place == tensors_.end()) {
    refuse(ErrorKind::NotFound, codes, "its codes are packed as config.json says, but there is no tensor {}",
           in_quotes(name));
  }
  if (place->second->shape != shape) {
    refuse(ErrorKind::Malformed, *place->second,
           "it has shape [{}]; codes of shape [{}], quantised as config.json says, "
           "need [{}]",
           fmt::join(place->second->shape, ", "), fmt::join(codes.shape, ", "), fmt::join(shape, ", "));
  }
  return *place->second;
}

TensorInfo Joiner::join(const SafetensorsTensor& codes, const std::string& module,
                        const MlxQuantization::Format& format) {
  if (codes.shape.size() < 2) {
    refuse(ErrorKind::Malformed, codes, "its shape is [{}]; packed codes are a matrix", fmt::join(codes.shape, ", "));
  }
  const int64_t bits = codes.shape.back() * 32;  // of a row; far inside 64 bits, for the bytes are in the file
  if (bits % (format.bits * format.group) != 0) {
    refuse(ErrorKind::Malformed, codes,
           "its rows are {} words of 32 bits, which are no whole groups of {} codes of {} "
           "bits, as config.json says",
           codes.shape.back(), format.group, format.bits);
  }
  std::vector<int64_t> groups = codes.shape;
  groups.back() = bits / (format.bits * format.group);
  const SafetensorsTensor& scales = part(codes, module + ".scales", groups);
  parts_.insert(scales.name);
  const bool affine = format.mode == MlxMode::Affine;
  if (affine ? !scales.type->dtype : scales.type->name != "U8") {
    refuse(ErrorKind::Unsupported, scales, "its dtype is {}; scales of mode {} are {}", scales.type->name,
           name_of(format.mode), affine ? "F16, BF16 or F32" : "U8");
  }

  TensorInfo tensor;
  tensor.name = codes.name;
  tensor.dtype = mlx_dtype(format.mode, format.bits, format.group, scales.type->dtype.value_or(DType::F32)).value();
  tensor.shape = codes.shape;
  tensor.shape.back() = groups.back() * format.group;
  tensor.elements = scales.elements * format.group;
  const MlxBlock& block = *info(tensor.dtype).mlx;
  tensor.parts = {{scales.bytes, block.scale_bytes, 0}};
  if (affine) {
    const SafetensorsTensor& biases = part(codes, module + ".biases", groups);
    parts_.insert(biases.name);
    if (biases.type != scales.type) {
      refuse(ErrorKind::Unsupported, biases, "its dtype is {}; it must be that of the scales, {}", biases.type->name,
             scales.type->name);
    }
    tensor.parts.push_back({biases.bytes, block.bias_bytes, block.scale_bytes});
  }
  tensor.parts.push_back({codes.bytes, info(tensor.dtype).block_bytes - block.codes_at(), block.codes_at()});
  return tensor;
}

}  // namespace

JoinedTensors join_tensors(std::vector<SafetensorsTensor> tensors, const MlxQuantization& quantization,
                           const MappedFiles& files) {
  TensorMap by_name;
  for (const SafetensorsTensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  std::set<std::string_view> parts;
  Joiner joiner(by_name, files, parts);
  std::map<std::string_view, TensorInfo> matrices;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.type->name != "U32" || !tensor.name.ends_with(kWeight)) continue;
    const std::string module = tensor.name.substr(0, tensor.name.size() - kWeight.size());
    if (const auto format = quantization.format_of(module)) {
      matrices.emplace(tensor.name, joiner.join(tensor, module, *format));
    }
  }
  JoinedTensors joined;
  for (SafetensorsTensor& tensor : tensors) {
    if (const auto matrix = matrices.find(tensor.name); matrix != matrices.end()) {
      joined.tensors.push_back(std::move(matrix->second));
    } else if (parts.contains(tensor.name)) {
      continue;
    } else if (const auto dtype = tensor.type->dtype) {
      joined.tensors.push_back(
          {tensor.name, *dtype, tensor.shape, tensor.elements, {{tensor.bytes, info(*dtype).block_bytes, 0}}});
    } else {
      joined.unusable.push_back({tensor.name, tensor.type->name, tensor.shape, tensor.bytes});
    }
  }
  return joined;
}

}  // namespace lockstep
