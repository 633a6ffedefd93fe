// Opening a checkpoint: the first bytes of the file say which reader it needs.
#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/quoted.h"
#include "checkpoint/gguf_checkpoint.h"

namespace lockstep {

std::unique_ptr<Checkpoint> Checkpoint::open(const std::filesystem::path& path) {
  constexpr std::string_view kWayOut = "a GGUF file (or the first file of a split) can be opened";
  std::error_code ignored;  // what cannot be looked at is reported by the mapping
  if (std::filesystem::is_directory(path, ignored)) {
    fail(ErrorKind::Unsupported, "{}: it is a directory; {}", path.string(), kWayOut);
  }
  MappedFile file(path);
  const auto bytes = file.bytes();
  const std::string_view magic(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 4));
  if (magic == "GGUF") return open_gguf(std::move(file));
  fail(bytes.empty() ? ErrorKind::Malformed : ErrorKind::Unsupported, "{}: it has {} bytes and begins with {}; {}",
       file.path(), bytes.size(), in_quotes(magic), kWayOut);
}

}  // namespace lockstep
