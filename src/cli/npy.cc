// The header of a .npy file, rows after it, and the way of the whole to its name.
#include "cli/npy.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/quoted.h"

namespace lockstep {
namespace {

[[noreturn]] void fail_errno(const std::string& path, int error) {
  fail(ErrorKind::Io, "--out {} cannot be written: {}", in_quotes(path), std::generic_category().message(error));
}

[[noreturn]] void fail_unfinished(const std::string& path, int error) {
  fail(ErrorKind::Io, "--out {} could not be written to its end: {}", in_quotes(path),
       std::generic_category().message(error));
}

}  // namespace

NpyWriter::NpyWriter(const std::string& path, int64_t rows, int64_t cols) : path_(path), target_(path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // what is wrong with the path shows when a file is opened
  const fs::file_status status = fs::status(target_, ignored);
  // Renaming needs no right to write to the old file, but replacing what is write-protected would be a surprise.
  if (fs::exists(status) && ::access(path.c_str(), W_OK) != 0) fail_errno(path, errno);
  if (fs::is_directory(status)) fail(ErrorKind::Io, "--out {} is a directory; name a file", in_quotes(path));
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    file_.reset(std::tmpfile());
  } else {
    if (fs::exists(status)) target_ = fs::canonical(target_);
    auto beside = target_;
    beside += fmt::format(".tmp-{}", ::getpid());
    fs::remove(beside, ignored);  // of a process that had this number and was killed
    file_.reset(std::fopen(beside.c_str(), "wbx"));
    if (file_) temporary_ = beside;
  }
  if (!file_) fail_errno(path, errno);
  // Magic, version and a length in 2 bytes come first; blanks bring all of it to a multiple of 64, a newline ends it.
  constexpr size_t kBefore = 10;
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  header.append(63 - (kBefore + header.size()) % 64, ' ').push_back('\n');
  const auto size = static_cast<uint16_t>(header.size());
  const std::array<uint8_t, kBefore> start{
      0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<uint8_t>(size & 0xff), static_cast<uint8_t>(size >> 8)};
  write(start.data(), start.size());
  write(header.data(), header.size());
}

NpyWriter::~NpyWriter() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove(temporary_, ignored);
}

void NpyWriter::add(std::span<const float> row) {
  write(row.data(), row.size_bytes());
}

void NpyWriter::write(const void* bytes, size_t size) {
  if (error_ == 0 && std::fwrite(bytes, 1, size, file_.get()) != size) error_ = errno;
}

void NpyWriter::close() {
  if (error_ == 0 && std::fflush(file_.get()) != 0) error_ = errno;
  if (error_ != 0) fail_unfinished(path_, error_);
  if (temporary_.empty()) return copy_to_target();
  if (std::fclose(file_.release()) != 0) fail_unfinished(path_, errno);
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail_errno(path_, errno);
  temporary_.clear();
}

void NpyWriter::copy_to_target() {
  const File to(std::fopen(target_.c_str(), "wb"), std::fclose);
  if (!to) fail_errno(path_, errno);
  std::rewind(file_.get());
  std::array<char, 1 << 16> piece;
  while (const size_t size = std::fread(piece.data(), 1, piece.size(), file_.get())) {
    if (std::fwrite(piece.data(), 1, size, to.get()) != size) fail_unfinished(path_, errno);
  }
  if (std::ferror(file_.get()) != 0 || std::fflush(to.get()) != 0) fail_unfinished(path_, errno);
}

}  // namespace lockstep
