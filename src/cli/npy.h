// A NumPy file of float32 rows, written as the rows arrive.
#pragma once

#include <cstdint>
#include <span>

#include "cli/output_file.h"

namespace lockstep {

// Format 1.0 of numpy.lib.format: little-endian float32, C order, shape [rows, cols].
void write_npy_header(OutputFile& file, int64_t rows, int64_t cols);
void write_npy_row(OutputFile& file, std::span<const float> row);

}  // namespace lockstep
