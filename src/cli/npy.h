// A NumPy file of float32 rows, written as the rows arrive.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace lockstep {

// Format 1.0 of numpy.lib.format: little-endian float32, C order, shape [rows, cols].
//
// Rows go to a temporary file, so that add() never waits for whoever reads the target, and what stands at the target
// stays until all is there: beside a file that close() renames to the target's name, or, for a pipe or device, without
// a name, copied by close(). A writer that is not closed leaves nothing behind.
class NpyWriter {
 public:
  // Throws Error(Io) when nothing can be written there.
  NpyWriter(const std::string& path, int64_t rows, int64_t cols);
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  // Errors are kept for close().
  void add(std::span<const float> row);
  // Throws Error(Io) when anything could not be written.
  void close();

 private:
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;
  void write(const void* bytes, size_t size);
  void copy_to_target();

  std::string path_;                 // as given, for messages
  std::filesystem::path target_;     // links followed
  std::filesystem::path temporary_;  // empty: without a name
  File file_{nullptr, std::fclose};
  int error_ = 0;  // errno of the first write that failed
};

}  // namespace lockstep
