// One safetensors file, parsed and checked (huggingface/safetensors, README):
//
//   u64 length of the header, little-endian; at most 100,000,000
//   header   JSON: {"__metadata__": {text: text}, NAME: {"dtype": "BF16", "shape": [...], "data_offsets": [begin,
//   end]}} data     the tensors, row-major, one behind the other without a gap, to the end of the file
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/header_budget.h"
#include "tensor/tensor.h"

namespace lockstep {

struct SafetensorsType {
  std::string_view name;       // "BF16"
  int bits;                    // of an element
  std::optional<DType> dtype;  // where a weight can have it as it is
};

struct SafetensorsTensor {
  std::string name;
  const SafetensorsType* type = nullptr;  // in a constant table
  std::vector<int64_t> shape;             // empty: a single element
  int64_t elements = 0;                   // 0 when a side is
  std::span<const std::byte> bytes;
};

// In the order of the data. `file` is for messages. Throws Error(Malformed | DoesNotFit); Error(Unsupported) for a
// dtype that is not known, whose size therefore is not either.
std::vector<SafetensorsTensor> parse_safetensors(std::span<const std::byte> bytes, const std::string& file,
                                                 HeaderBudget& budget);

}  // namespace lockstep
