// Stored numbers to floats and back in plain C++: what the reference table runs, and what the vector tables run for
// formats that have no vector code of their own. These functions are compiled without any special instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace lockstep {

// Kernels::dequantize for every format. Only the blocks that hold the elements are read.
void dequantize_stored(DType dtype, const std::byte* row, int64_t first, int64_t count, float* out);

// Element i of a row of F32, F16 or BF16.
float plain_element(DType dtype, const std::byte* row, int64_t i);

// Kernels::from_float.
void store_floats(DType dtype, const float* in, std::byte* out, int64_t count);

}  // namespace lockstep
