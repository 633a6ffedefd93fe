// A whole file, open for as long as its owner lives: mapped read-only for what is looked at in place, and read where
// bytes are copied.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "base/aligned_buffer.h"
#include "base/descriptor.h"

namespace lockstep {

// Move-only. Reading from several threads is safe.
//
// The two ways differ when the file is cut short by somebody else, or its device fails: read() throws, but touching
// bytes() raises SIGBUS, as with every mapping. Pages touched through bytes() count to this process's resident set;
// what read() copies stays in the page cache, which the kernel takes back when memory is short.
class MappedFile {
 public:
  // Throws Error(NotFound) or Error(Io) that names the path. An empty file maps to an empty span.
  explicit MappedFile(const std::filesystem::path& path);

  std::span<const std::byte> bytes() const {
    return pages_ ? std::span{static_cast<const std::byte*>(pages_.get()), size_} : std::span<const std::byte>();
  }
  const std::string& path() const { return path_; }

  // Copies the to.size() bytes at `offset`, which lie inside bytes(). Throws Error(Io) that names the path and the
  // place when they cannot be read or are no longer there.
  void read(size_t offset, std::span<std::byte> to) const;

 private:
  std::string path_;
  Descriptor file_;
  size_t size_ = 0;
  PageBlock pages_;
};

}  // namespace lockstep
