// Element and block formats. A block holds `block_elements` consecutive elements of one row in `block_bytes` bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep {

enum class DType : uint8_t { F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 };

struct DTypeInfo {
  DType dtype;
  std::string_view name;   // as GGUF tools write it: "F32", "Q4_1"
  int64_t block_elements;  // 1 for plain formats
  int64_t block_bytes;
  uint32_t ggml_type;  // the id in a GGUF tensor table
};

// The whole table, in the order of the enumeration.
std::span<const DTypeInfo> dtype_table();
const DTypeInfo& info(DType dtype);
std::optional<DType> dtype_from_ggml(uint32_t ggml_type);

// Bytes of a row of `elements`; elements must be a multiple of the block.
int64_t row_bytes(DType dtype, int64_t elements);

}  // namespace lockstep
