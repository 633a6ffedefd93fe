// Mapping a file with open, fstat and mmap; the descriptor is closed as soon as the mapping exists.
#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace lockstep {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail_errno(const std::string& path, const char* operation) {
  const int error = errno;
  const bool absent = error == ENOENT || error == ENOTDIR;
  fail(absent ? ErrorKind::NotFound : ErrorKind::Io, "{}: cannot {}: {}", path, operation,
       std::generic_category().message(error));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path.string()) {
  // Without O_NONBLOCK, opening a FIFO that nobody writes would wait for ever. Regular files ignore the flag.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail_errno(path_, "open");
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) fail_errno(path_, "read its size");
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorKind::Io, "{}: is {}; only regular files can be mapped", path_,
         S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket");
  }
  const auto size = static_cast<uintmax_t>(status.st_size);
  if (size == 0) return;
  if (size > std::numeric_limits<size_t>::max()) {
    fail(ErrorKind::DoesNotFit, "{}: {} bytes are more than this process can address", path_, size);
  }
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) fail_errno(path_, "map");
  data_ = static_cast<const std::byte*>(memory);
  size_ = size;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    path_ = std::move(other.path_);
  }
  return *this;
}

MappedFile::~MappedFile() {
  unmap();
}

void MappedFile::unmap() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
}

void MappedFile::done_with(size_t begin, size_t size) const {
  static const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  begin = std::min(begin, size_);
  const size_t end = begin + std::min(size, size_ - begin);
  if (begin == end) return;
  const size_t first_page = begin / page * page;
  // A hint: its outcome changes no result, so it is not looked at.
  ::madvise(const_cast<std::byte*>(data_) + first_page, end - first_page, MADV_DONTNEED);
}

}  // namespace lockstep
