// Fuzz target: any bytes are a GGUF file, or an Error. The bytes are a heap block of the exact size, so that
// AddressSanitizer sees the first byte read beyond it. scripts/fuzz runs it; the seeds are the fixtures.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"
#include "checkpoint/gguf_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    HeaderBudget budget;
    const auto file = parse_gguf(bytes, "fuzz.gguf", budget);
    for (const auto& tensor : file.tensors) {
      const auto data = tensor.parts.at(0).bytes;
      const bool inside =
          tensor.parts.size() == 1 && data.data() >= bytes.data() &&
          data.data() + data.size() <= bytes.data() + bytes.size() &&
          tensor.bytes() == tensor.elements / info(tensor.dtype).block_elements * info(tensor.dtype).block_bytes;
      if (!inside) __builtin_trap();
    }
    // Typed reads of every key, whatever its type.
    for (const auto& [key, value] : file.metadata.entries()) {
      try {
        file.metadata.require_int(key, 0, 1'000'000);
      } catch (const Error&) {
      }
      try {
        file.metadata.require_float(key);
      } catch (const Error&) {
      }
    }
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.find('\n') != std::string_view::npos || message.size() > 1000) __builtin_trap();
  }
  return 0;
}
