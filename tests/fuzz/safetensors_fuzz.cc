// Fuzz target: any bytes are a safetensors file, or an Error in one line. The bytes are a heap block of the exact size,
// so that AddressSanitizer sees the first byte read beyond it. scripts/fuzz runs it; the seeds are fixtures.
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/safetensors_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    HeaderBudget budget;
    const auto tensors = parse_safetensors(bytes, "fuzz.safetensors", budget);
    std::set<std::string> names;
    const std::byte* at = tensors.empty() ? bytes.data() + size : tensors.front().bytes.data();
    for (const auto& tensor : tensors) {
      uint64_t elements = 1;
      for (const int64_t side : tensor.shape) elements *= static_cast<uint64_t>(side);
      const bool holds = names.insert(tensor.name).second && static_cast<uint64_t>(tensor.elements) == elements &&
                         tensor.bytes.data() == at &&
                         tensor.bytes.size() * 8 == elements * static_cast<uint64_t>(tensor.type->bits);
      if (!holds) __builtin_trap();
      at += tensor.bytes.size();
    }
    if (at != bytes.data() + size) __builtin_trap();  // the data is covered to its end
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.find('\n') != std::string_view::npos || message.size() > 1000) __builtin_trap();
  }
  return 0;
}
