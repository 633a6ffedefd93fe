// A NumPy file of float32 rows, written as the rows arrive.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

namespace lockstep {

// Format 1.0 of numpy.lib.format: little-endian float32, C order, shape [rows, cols].
class NpyWriter {
 public:
  // Opens the file, replacing what is there. Throws Error(Io).
  NpyWriter(const std::string& path, int64_t rows, int64_t cols);
  // Errors are kept for close().
  void add(std::span<const float> row);
  // Throws Error(Io) when anything could not be written.
  void close();

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace lockstep
