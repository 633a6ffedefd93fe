// Fuzz target: any bytes are a config.json, the quantisation in it fits a few tensors or does not, and the same bytes
// are an index; or an Error in one line. scripts/fuzz runs it; the seeds are fixtures.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/mlx_quantization.h"

namespace {

using namespace lockstep;

// Calls what may throw an Error, and sees that it is one short line.
template <class Work>
void attempt(Work work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.find('\n') != std::string_view::npos || message.size() > 1000) __builtin_trap();
  }
}

// A matrix of 4 rows, quantised so that 2, 4 and 8 bits may fit its scales; nothing of the fuzzer's.
std::vector<SafetensorsTensor> matrix(std::span<const std::byte> bytes, const char* scales, int64_t groups) {
  static constexpr SafetensorsType kU32{"U32", 32, {}}, kU8{"U8", 8, {}}, kF16{"F16", 16, DType::F16};
  const SafetensorsType* type = scales == kU8.name ? &kU8 : &kF16;
  const auto scale_bytes = bytes.first(static_cast<size_t>(4 * groups * type->bits / 8));
  return {{"layers.0.proj.weight", &kU32, {4, 16}, 64, bytes.first(256)},
          {"layers.0.proj.scales", type, {4, groups}, 4 * groups, scale_bytes},
          {"layers.0.proj.biases", type, {4, groups}, 4 * groups, scale_bytes}};
}

void check(const TensorInfo& tensor) {
  const DTypeInfo& format = info(tensor.dtype);
  int64_t block = 0;
  for (const TensorPart& part : tensor.parts) {
    const int64_t bytes = tensor.elements / format.block_elements * part.block_bytes;
    if (part.offset != block || static_cast<int64_t>(part.bytes.size()) != bytes) __builtin_trap();
    block += part.block_bytes;
  }
  if (block != format.block_bytes || tensor.shape.size() != 2 || tensor.shape[0] * tensor.shape[1] != tensor.elements) {
    __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  attempt([&] {
    HeaderBudget budget;
    HfConfig config("config.json");
    config.add(bytes, "config.json", "", budget);
    config.add(bytes, "generation_config.json", "generation.", budget);
    for (const auto& entry : config.metadata().entries()) {
      attempt([&] { config.metadata().require_int(entry.first, 0, 1'000'000); });
      attempt([&] { config.metadata().require_string(entry.first); });
    }
    const MlxQuantization quantization(config.metadata());
    MappedFile program("/proc/self/exe");  // any bytes do, but messages name the file that holds the tensors
    const auto some = program.bytes();
    MappedFiles files;
    files.add(std::move(program));
    const auto attempt_join = [&](const char* scales, int64_t groups) {
      attempt([&] {
        const auto joined = join_tensors(matrix(some, scales, groups), quantization, files);
        for (const TensorInfo& tensor : joined.tensors) check(tensor);
      });
    };
    attempt_join("F16", 2);
    attempt_join("F16", 4);
    attempt_join("U8", 4);
    attempt_join("U8", 8);
  });
  attempt([&] {
    HeaderBudget budget;
    for (const auto& [shard, tensors] : parse_index(bytes, "model.safetensors.index.json", budget)) {
      if (shard.find('/') != shard.npos || !shard.ends_with(".safetensors") || tensors.empty()) __builtin_trap();
    }
  });
  return 0;
}
