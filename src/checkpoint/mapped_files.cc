// Which file bytes belong to.
#include "checkpoint/mapped_files.h"

#include <algorithm>
#include <cassert>
#include <functional>

namespace lockstep {

const MappedFile& MappedFiles::with(std::span<const std::byte> bytes) const {
  const std::less<> before;  // `<` on pointers into different mappings has no meaning
  const auto file = std::find_if(files_.begin(), files_.end(), [&](const MappedFile& candidate) {
    const auto mapped = candidate.bytes();
    return !before(bytes.data(), mapped.data()) && !before(mapped.data() + mapped.size(), bytes.data() + bytes.size());
  });
  assert(file != files_.end());
  return *file;
}

void MappedFiles::read(std::span<const std::byte> bytes, std::byte* to) const {
  const MappedFile& file = with(bytes);
  file.read(static_cast<size_t>(bytes.data() - file.bytes().data()), {to, bytes.size()});
}

int64_t MappedFiles::bytes() const {
  int64_t sum = 0;
  for (const MappedFile& file : files_) sum += static_cast<int64_t>(file.bytes().size());
  return sum;
}

std::vector<std::filesystem::path> MappedFiles::paths() const {
  std::vector<std::filesystem::path> paths;
  for (const MappedFile& file : files_) paths.emplace_back(file.path());
  return paths;
}

}  // namespace lockstep
