// Joins the files of a GGUF checkpoint: one table of tensors, one index of names.
#include "checkpoint/gguf_checkpoint.h"

#include <iterator>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "checkpoint/gguf_file.h"
#include "checkpoint/mapped_files.h"

namespace lockstep {
namespace {

constexpr int64_t kMostParts = 65535;

// Where a file stands in a split. A file that is not divided is part 0 of 1.
struct Part {
  int64_t index = 0;  // counted from 0, as in the metadata; file names count from 1
  int64_t count = 1;
  std::optional<int64_t> tensors;  // in all parts together
};

Part part_of(const Metadata& metadata) {
  const auto count = metadata.get_int("split.count", 0, kMostParts).value_or(1);
  if (count <= 1) return {};
  return {.index = metadata.require_int("split.no", 0, count - 1),
          .count = count,
          .tensors = metadata.get_int("split.tensors.count", 0, std::numeric_limits<int32_t>::max())};
}

// "-00001-of-00003.gguf"
std::string name_ending(int64_t index, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count);
}

class GgufCheckpoint final : public Checkpoint {
 public:
  explicit GgufCheckpoint(MappedFile first) : metadata_(first.path()) {
    HeaderBudget budget;
    auto parsed = parse_gguf(first.bytes(), first.path(), budget);
    format_ = fmt::format("GGUF v{}", parsed.version);
    metadata_ = std::move(parsed.metadata);
    tensors_ = std::move(parsed.tensors);
    files_.add(std::move(first));
    add_other_parts(budget);
    index_names();
  }

  std::string_view format() const override { return format_; }
  Naming naming() const override { return Naming::Gguf; }
  const Metadata& metadata() const override { return metadata_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  int64_t file_bytes() const override { return files_.bytes(); }
  const TensorInfo* find(std::string_view name) const override {
    const auto place = index_.find(name);
    return place == index_.end() ? nullptr : place->second;
  }
  std::vector<std::filesystem::path> files() const override { return files_.paths(); }
  void read(std::span<const std::byte> bytes, std::byte* to) const override { files_.read(bytes, to); }

 private:
  void add_other_parts(HeaderBudget& budget);
  void index_names();

  std::string format_;
  MappedFiles files_;  // in the order of the split
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string_view, const TensorInfo*> index_;  // views of the names in tensors_
};

void GgufCheckpoint::add_other_parts(HeaderBudget& budget) {
  const auto first = part_of(metadata_);
  if (first.count == 1) return;
  const std::string path = metadata_.file();
  const auto ending = name_ending(first.index, first.count);
  if (!path.ends_with(ending)) {
    fail(ErrorKind::Malformed,
         "{}: it is part {} of {} of a split model, but its name does not end in {}, so the others cannot be found; "
         "give the files the names they had",
         path, first.index + 1, first.count, in_quotes(ending));
  }
  const auto stem = path.substr(0, path.size() - ending.size());
  if (first.index != 0) {
    fail(ErrorKind::Usage, "{}: it is part {} of {} of a split model; open the first part, {}{}", path, first.index + 1,
         first.count, stem, name_ending(0, first.count));
  }
  for (int64_t i = 1; i < first.count; ++i) {
    MappedFile file(stem + name_ending(i, first.count));
    auto parsed = parse_gguf(file.bytes(), file.path(), budget);
    const auto part = part_of(parsed.metadata);
    if (part.index != i || part.count != first.count) {
      fail(ErrorKind::Malformed, "{}: its metadata says part {} of {}; its name says part {} of {}", file.path(),
           part.index + 1, part.count, i + 1, first.count);
    }
    tensors_.insert(tensors_.end(), std::make_move_iterator(parsed.tensors.begin()),
                    std::make_move_iterator(parsed.tensors.end()));
    files_.add(std::move(file));
  }
  if (first.tensors && static_cast<size_t>(*first.tensors) != tensors_.size()) {
    fail(ErrorKind::Malformed, "{}: split.tensors.count is {}, but its {} parts hold {} tensors", path, *first.tensors,
         first.count, tensors_.size());
  }
}

void GgufCheckpoint::index_names() {
  for (const auto& tensor : tensors_) {
    if (!index_.emplace(tensor.name, &tensor).second) {
      fail(ErrorKind::Malformed, "{}: tensor {} is there twice; each name may be there once",
           files_.with(tensor.parts.front().bytes).path(), in_quotes(tensor.name));
    }
  }
}

}  // namespace

std::unique_ptr<Checkpoint> open_gguf(MappedFile file) {
  return std::make_unique<GgufCheckpoint>(std::move(file));
}

}  // namespace lockstep
