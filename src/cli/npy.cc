// The header of a .npy file, and rows after it.
#include "cli/npy.h"

#include <fmt/format.h>

#include <array>
#include <string>

namespace lockstep {

void write_npy_header(OutputFile& file, int64_t rows, int64_t cols) {
  // Magic, version and a length in 2 bytes come first; blanks bring all of it to a multiple of 64, a newline ends it.
  constexpr size_t kBefore = 10;
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  header.append(63 - (kBefore + header.size()) % 64, ' ').push_back('\n');
  const auto size = static_cast<uint16_t>(header.size());
  const std::array<uint8_t, kBefore> start{
      0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<uint8_t>(size & 0xff), static_cast<uint8_t>(size >> 8)};
  file.write(start.data(), start.size());
  file.write(header.data(), header.size());
}

void write_npy_row(OutputFile& file, std::span<const float> row) {
  file.write(row.data(), row.size_bytes());
}

}  // namespace lockstep
