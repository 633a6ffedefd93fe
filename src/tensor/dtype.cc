// The table of formats; ids and block layouts follow the GGUF specification (ggml, docs/gguf.md).
#include "tensor/dtype.h"

#include <array>
#include <cassert>

namespace lockstep {
namespace {

constexpr std::array kTable = {
    DTypeInfo{DType::F32, "F32", 1, 4, 0},     DTypeInfo{DType::F16, "F16", 1, 2, 1},
    DTypeInfo{DType::BF16, "BF16", 1, 2, 30},  DTypeInfo{DType::Q4_0, "Q4_0", 32, 18, 2},
    DTypeInfo{DType::Q4_1, "Q4_1", 32, 20, 3}, DTypeInfo{DType::Q5_0, "Q5_0", 32, 22, 6},
    DTypeInfo{DType::Q5_1, "Q5_1", 32, 24, 7}, DTypeInfo{DType::Q8_0, "Q8_0", 32, 34, 8},
};

constexpr bool in_order() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<size_t>(kTable[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_order(), "info() indexes the table by the enumeration");

}  // namespace

std::span<const DTypeInfo> dtype_table() {
  return kTable;
}

const DTypeInfo& info(DType dtype) {
  return kTable[static_cast<size_t>(dtype)];
}

std::optional<DType> dtype_from_ggml(uint32_t ggml_type) {
  for (const auto& entry : kTable) {
    if (entry.ggml_type == ggml_type) return entry.dtype;
  }
  return std::nullopt;
}

int64_t row_bytes(DType dtype, int64_t elements) {
  const auto& format = info(dtype);
  assert(elements % format.block_elements == 0);
  return elements / format.block_elements * format.block_bytes;
}

}  // namespace lockstep
