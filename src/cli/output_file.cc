// Where the bytes wait, and the way of the whole to its name.
#include "cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr int kMostNames = 100;  // that other files may have
constexpr int kMostLinks = 40;   // as the kernel follows

// Where a path that does not exist leads through symbolic links. A loop is not followed: opening it fails.
fs::path followed(fs::path path) {
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(path, error); ++links) {
    path = path.parent_path() / fs::read_symlink(path, error);
  }
  return path;
}

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
  for (const auto& [device, what] : {std::pair("/dev/stdout", "standard output"), {"/dev/stderr", "standard error"}}) {
    if (fs::is_regular_file(target_, ignored) && fs::equivalent(target_, device, ignored)) {
      fail(ErrorKind::Usage, "{} is where {} goes; name another file", name_, what);
    }
  }
  std::error_code error;
  const fs::file_status status = fs::status(target_, error);
  if (error && error != std::errc::no_such_file_or_directory) fail_to_open(error.value());
  if (fs::is_directory(status)) fail(ErrorKind::Io, "{} is a directory; name a file", name_);
  if (fs::exists(status)) {
    // Renaming needs no right to write to the old file, but replacing what is write-protected would be a surprise.
    if (::access(path.c_str(), W_OK) != 0) fail_to_open(errno);
    if (fs::is_regular_file(status)) replace_ = fs::canonical(target_);
  } else {
    replace_ = followed(target_);
  }
  if (!replace_.empty()) open_beside(fs::exists(status));
  // Some file systems know no files without names.
  if (!file_ && !fs::exists(status) && errno != EOPNOTSUPP && errno != EISDIR) fail_to_open(errno);
  if (!file_) {
    replace_.clear();  // the folder takes no other file: the bytes are copied into this one
    file_.reset(std::tmpfile());
  }
  if (!file_) fail_to_open(errno);
}

// A file without a name in the target's folder, with the mode and owner of what stands at the target. file_ stays
// empty, and errno says why, when there can be none.
void OutputFile::open_beside(bool exists) {
  const fs::path folder = replace_.has_parent_path() ? replace_.parent_path() : fs::path(".");
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (descriptor < 0) return;
  file_.reset(::fdopen(descriptor, "w+b"));
  struct stat old = {};
  if (!exists || ::stat(replace_.c_str(), &old) != 0) return;
  if (::fchown(descriptor, old.st_uid, old.st_gid) != 0 || ::fchmod(descriptor, old.st_mode & 07777) != 0)
    file_.reset();
}

OutputFile::~OutputFile() = default;

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
  if (replace_.empty() || !move_to_target()) copy_to_target();
}

// Gives the file a name in the target's folder, and then the target's. False, with nothing left behind, when that
// cannot be: the target may be a mount point, or its folder may keep the files of others.
bool OutputFile::move_to_target() {
  const std::string source = fmt::format("/proc/self/fd/{}", ::fileno(file_.get()));
  for (int tries = 0; tries < kMostNames; ++tries) {
    fs::path name = replace_;
    name.replace_filename(fmt::format(".lockstep-{}-{}", ::getpid(), tries));
    if (::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      if (errno == EEXIST) continue;
      return false;
    }
    if (std::rename(name.c_str(), replace_.c_str()) == 0) return true;
    ::unlink(name.c_str());
    return false;
  }
  return false;
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
