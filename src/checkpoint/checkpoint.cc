// Opening a checkpoint: the name, or the first bytes of the file, say which reader it needs.
#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/quoted.h"
#include "checkpoint/gguf_checkpoint.h"
#include "checkpoint/safetensors_checkpoint.h"

namespace lockstep {

int64_t TensorInfo::bytes() const {
  int64_t sum = 0;
  for (const TensorPart& part : parts) sum += static_cast<int64_t>(part.bytes.size());
  return sum;
}

std::unique_ptr<Checkpoint> Checkpoint::open(const std::filesystem::path& path) {
  std::error_code ignored;  // what cannot be looked at is reported by the mapping
  if (std::filesystem::is_directory(path, ignored) || is_safetensors_name(path)) return open_safetensors(path);
  MappedFile file(path);
  const auto bytes = file.bytes();
  const std::string_view magic(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 4));
  if (magic == "GGUF") return open_gguf(std::move(file));
  fail(bytes.empty() ? ErrorKind::Malformed : ErrorKind::Unsupported,
       "{}: it has {} bytes and begins with {}; a GGUF file (or the first file of a split), a .safetensors or "
       ".safetensors.index.json file, or the folder of one can be opened",
       file.path(), bytes.size(), in_quotes(magic));
}

}  // namespace lockstep
