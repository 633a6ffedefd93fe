// Opening, mapping and reading a file.
#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <limits>
#include <system_error>

#include "base/error.h"

namespace lockstep {
namespace {

[[noreturn]] void fail_errno(const std::string& path, const std::string& operation) {
  const int error = errno;
  const bool absent = error == ENOENT || error == ENOTDIR;
  fail(absent ? ErrorKind::NotFound : ErrorKind::Io, "{}: cannot {}: {}", path, operation,
       std::generic_category().message(error));
}

}  // namespace

// Without O_NONBLOCK, opening a FIFO that nobody writes would wait for ever. Regular files ignore the flag.
MappedFile::MappedFile(const std::filesystem::path& path)
    : path_(path.string()), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (file_.get() < 0) fail_errno(path_, "open");
  struct stat status = {};
  if (::fstat(file_.get(), &status) != 0) fail_errno(path_, "read its size");
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorKind::Io, "{}: is {}; only regular files can be mapped", path_,
         S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket");
  }
  const auto size = static_cast<uintmax_t>(status.st_size);
  if (size == 0) return;
  if (size > std::numeric_limits<size_t>::max()) {
    fail(ErrorKind::DoesNotFit, "{}: {} bytes are more than this process can address", path_, size);
  }
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file_.get(), 0);
  if (memory == MAP_FAILED) fail_errno(path_, "map");
  size_ = size;
  pages_ = {memory, Unmap{size_}};
}

void MappedFile::read(size_t offset, std::span<std::byte> to) const {
  assert(offset <= size_ && to.size() <= size_ - offset);
  while (!to.empty()) {
    const ssize_t count = ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(path_, fmt::format("read {} bytes at byte {}", to.size(), offset + 1));
    if (count == 0) {
      fail(ErrorKind::Io, "{}: it ends before byte {}, but had {} bytes when it was opened; it was cut short meanwhile",
           path_, offset + 1, size_);
    }
    offset += static_cast<size_t>(count);
    to = to.subspan(static_cast<size_t>(count));
  }
}

}  // namespace lockstep
