// A whole file mapped read-only: bytes are read by the thread that touches them, and the page cache is the only copy.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace lockstep {

// Move-only owner of one mapping. Reading from several threads is safe. A file cut short by somebody else while it is
// mapped raises SIGBUS on access, as with every mapping.
class MappedFile {
 public:
  // Throws Error(NotFound) or Error(Io) that names the path. An empty file maps to an empty span.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Tells the kernel that [begin, begin + size) will not be read again: its pages leave this process's resident set;
  // the page cache keeps them.
  void done_with(size_t begin, size_t size) const;

 private:
  void unmap() noexcept;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

}  // namespace lockstep
