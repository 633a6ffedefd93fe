// The header of a .npy file, and rows after it.
#include "cli/npy.h"

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace lockstep {

NpyWriter::NpyWriter(const std::string& path, int64_t rows, int64_t cols)
    : path_(path), file_(path, std::ios::binary | std::ios::trunc) {
  if (!file_) fail(ErrorKind::Io, "--out '{}' cannot be written: {}", path, std::generic_category().message(errno));
  // Magic, version and a length in 2 bytes come first; blanks bring all of it to a multiple of 64, a newline ends it.
  constexpr size_t kBefore = 10;
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  header.append(63 - (kBefore + header.size()) % 64, ' ').push_back('\n');
  const std::string start{'\x93',
                          'N',
                          'U',
                          'M',
                          'P',
                          'Y',
                          1,
                          0,
                          static_cast<char>(header.size() & 0xff),
                          static_cast<char>(header.size() >> 8)};
  file_ << start << header;
}

void NpyWriter::add(std::span<const float> row) {
  file_.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(row.size_bytes()));
}

void NpyWriter::close() {
  file_.close();
  if (!file_) fail(ErrorKind::Io, "--out '{}' could not be written to its end; is the disk full?", path_);
}

}  // namespace lockstep
