// The mapped files of one checkpoint, found again by the bytes they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "base/mapped_file.h"

namespace lockstep {

// Reading from several threads is safe once all files are added.
class MappedFiles {
 public:
  // The bytes of the file, and of those added earlier, stay where they are.
  void add(MappedFile file) { files_.push_back(std::move(file)); }

  // The file that holds these bytes, which must be of one of them.
  const MappedFile& with(std::span<const std::byte> bytes) const;
  // Copies bytes of a file. Throws Error(Io) that names it.
  void read(std::span<const std::byte> bytes, std::byte* to) const;
  int64_t bytes() const;                             // of all files
  std::vector<std::filesystem::path> paths() const;  // in the order they were added

 private:
  std::vector<MappedFile> files_;
};

}  // namespace lockstep
