// Where the bytes wait, and the way of the whole to its name.
#include "cli/output_file.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "base/quoted.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr int kMostNames = 100;  // that other files, or a process that had this number and was killed, may have taken

}  // namespace

OutputFile::OutputFile(std::string_view flag, const std::string& path, std::span<const fs::path> models)
    : name_(fmt::format("{} {}", flag, in_quotes(path))), target_(path) {
  if (path.empty()) fail_to_open(ENOENT);
  std::error_code ignored;  // what is wrong with the path shows when a file is opened
  for (const fs::path& file : models) {
    if (fs::equivalent(target_, file, ignored)) {
      fail(ErrorKind::Usage, "{} is the model's own file; name another", name_);
    }
  }
  const fs::file_status status = fs::status(target_, ignored);
  if (fs::is_regular_file(status) && fs::equivalent(target_, "/dev/stdout", ignored)) {
    fail(ErrorKind::Usage, "{} is where standard output goes; name another file", name_);
  }
  // Renaming needs no right to write to the old file, but replacing what is write-protected would be a surprise.
  if (fs::exists(status) && ::access(path.c_str(), W_OK) != 0) fail_to_open(errno);
  if (fs::is_directory(status)) fail(ErrorKind::Io, "{} is a directory; name a file", name_);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    file_.reset(std::tmpfile());
  } else {
    if (fs::exists(status)) target_ = fs::canonical(target_);
    auto beside = target_;
    beside += fmt::format(".tmp-{}", ::getpid());
    for (int tries = 0; !file_ && tries < kMostNames; ++tries) {
      temporary_ = beside;
      if (tries > 0) temporary_ += fmt::format("-{}", tries);
      file_.reset(std::fopen(temporary_.c_str(), "wbx"));
      if (!file_ && errno != EEXIST) break;
    }
    if (!file_) temporary_.clear();
  }
  if (!file_) fail_to_open(errno);
}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove(temporary_, ignored);
}

void OutputFile::fail_to_open(int error) const {
  fail(ErrorKind::Io, "{} cannot be written: {}", name_, std::generic_category().message(error));
}

void OutputFile::fail_unfinished(int error) const {
  fail(ErrorKind::Io, "{} could not be written to its end: {}", name_, std::generic_category().message(error));
}

void OutputFile::write(const void* bytes, size_t size) {
  if (error_ == 0 && std::fwrite(bytes, 1, size, file_.get()) != size) error_ = errno;
}

void OutputFile::close() {
  if (error_ == 0 && std::fflush(file_.get()) != 0) error_ = errno;
  if (error_ != 0) fail_unfinished(error_);
  if (temporary_.empty()) return copy_to_target();
  if (std::fclose(file_.release()) != 0) fail_unfinished(errno);
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail_to_open(errno);
  temporary_.clear();
}

void OutputFile::copy_to_target() {
  const std::unique_ptr<FILE, int (*)(FILE*)> to(std::fopen(target_.c_str(), "wb"), std::fclose);
  if (!to) fail_to_open(errno);
  std::rewind(file_.get());
  std::array<char, 1 << 16> piece;
  while (const size_t size = std::fread(piece.data(), 1, piece.size(), file_.get())) {
    if (std::fwrite(piece.data(), 1, size, to.get()) != size) fail_unfinished(errno);
  }
  if (std::ferror(file_.get()) != 0 || std::fflush(to.get()) != 0) fail_unfinished(errno);
}

}  // namespace lockstep
