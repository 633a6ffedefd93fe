// The safetensors parser: the header's entries one by one, then whether together they are the data.
#include "checkpoint/safetensors_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/quoted.h"
#include "checkpoint/json_reader.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in the file");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMostHeaderBytes = 100'000'000;
constexpr size_t kMostDimensions = 8;
constexpr uint64_t kTensorMemory = 640;  // its entries here and in the checkpoint, shape, part, places in two indexes
constexpr std::string_view kMetadata = "__metadata__";

constexpr auto kTypes = std::to_array<SafetensorsType>({
    {"F32", 32, DType::F32}, {"F16", 16, DType::F16}, {"BF16", 16, DType::BF16}, {"BOOL", 8, {}},
    {"U8", 8, {}},           {"I8", 8, {}},           {"F8_E5M2", 8, {}},        {"F8_E4M3", 8, {}},
    {"F8_E8M0", 8, {}},      {"F8_E4M3FNUZ", 8, {}},  {"F8_E5M2FNUZ", 8, {}},    {"I16", 16, {}},
    {"U16", 16, {}},         {"I32", 32, {}},         {"U32", 32, {}},           {"F64", 64, {}},
    {"I64", 64, {}},         {"U64", 64, {}},         {"C64", 64, {}},           {"F4", 4, {}},
    {"F6_E2M3", 6, {}},      {"F6_E3M2", 6, {}},
});

struct Offsets {
  uint64_t begin = 0, end = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& file, HeaderBudget& budget)
      : bytes_(bytes), file_(file), budget_(budget) {}

  std::vector<SafetensorsTensor> parse();

 private:
  template <class... Args>
  [[noreturn]] void malformed(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::Malformed, "{}: {}", file_, fmt::format(format, std::forward<Args>(args)...));
  }
  // About the entry being read.
  template <class... Args>
  [[noreturn]] void bad_entry(fmt::format_string<Args...> format, Args&&... args) const {
    malformed("tensor {}: {}", in_quotes(entry_.name), fmt::format(format, std::forward<Args>(args)...));
  }

  uint64_t header_bytes() const;
  void take(const JsonValue& value);
  void take_type(const JsonValue& value);
  void take_shape(const JsonValue& value);
  void take_offsets(const JsonValue& value);
  void finish_entry();
  void place(std::span<const std::byte> data);

  std::span<const std::byte> bytes_;
  const std::string& file_;
  HeaderBudget& budget_;
  SafetensorsTensor entry_;
  bool in_entry_ = false, has_shape_ = false;
  std::optional<Offsets> entry_offsets_;
  std::vector<std::pair<Offsets, SafetensorsTensor>> tensors_;
};

std::vector<SafetensorsTensor> Parser::parse() {
  const uint64_t header = header_bytes();
  const auto text = bytes_.subspan(kLengthBytes, header);
  if (header == 0 || text.front() != std::byte{'{'}) {
    malformed("its header of {} bytes does not begin with '{{'; it is not a safetensors file, or damaged", header);
  }
  read_json(text, file_, "its header", budget_, [this](const JsonValue& value) { take(value); });
  if (in_entry_) finish_entry();
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.begin, a.first.end) < std::pair(b.first.begin, b.first.end);
  });
  place(bytes_.subspan(kLengthBytes + header));
  std::vector<SafetensorsTensor> list;
  list.reserve(tensors_.size());
  for (auto& [offsets, tensor] : tensors_) list.push_back(std::move(tensor));
  return list;
}

uint64_t Parser::header_bytes() const {
  if (bytes_.size() < kLengthBytes) {
    malformed("it has {} bytes; a safetensors file begins with {} bytes that say how long its header is", bytes_.size(),
              kLengthBytes);
  }
  uint64_t header;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  if (header > kMostHeaderBytes) {
    malformed("its header has {} bytes; at most {} are allowed (or it is not a safetensors file)", header,
              kMostHeaderBytes);
  }
  if (header > bytes_.size() - kLengthBytes) {
    malformed("its header has {} bytes, but only {} follow its length; it is cut short or damaged", header,
              bytes_.size() - kLengthBytes);
  }
  return header;
}

void Parser::take(const JsonValue& value) {
  const std::string& name = value.path[0];
  if (name == kMetadata) {
    const bool text = value.path.size() == 2 && value.kind == JsonValue::Kind::Scalar &&
                      std::holds_alternative<std::string_view>(value.scalar);
    const bool nothing = value.path.size() == 1 && value.kind == JsonValue::Kind::Other;
    if (!text && !nothing) malformed("its header's {} is no object of strings", kMetadata);
    return;
  }
  if (in_entry_ && entry_.name != name) finish_entry();
  if (!in_entry_) {
    budget_.charge(file_, kTensorMemory + 2 * name.size());
    entry_ = {};
    entry_.name = name;
    in_entry_ = true;
    has_shape_ = false;
    entry_offsets_.reset();
  }
  if (value.path.size() == 1 && value.kind == JsonValue::Kind::Other) return;  // without fields: see finish_entry()
  if (value.path.size() == 1) bad_entry("it is no object with dtype, shape and data_offsets");
  const std::string& field = value.path[1];
  if (value.path.size() > 2) bad_entry("its {} is an object", in_quotes(field));
  if (field == "dtype") {
    take_type(value);
  } else if (field == "shape") {
    take_shape(value);
  } else if (field == "data_offsets") {
    take_offsets(value);
  } else {
    bad_entry("it has the field {}; dtype, shape and data_offsets are allowed", in_quotes(field));
  }
}

void Parser::take_type(const JsonValue& value) {
  const auto* text = std::get_if<std::string_view>(&value.scalar);
  if (value.kind != JsonValue::Kind::Scalar || text == nullptr) bad_entry("its dtype is no string");
  const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) { return t.name == *text; });
  if (type == kTypes.end()) {
    std::string known;
    for (const auto& t : kTypes) known += (known.empty() ? "" : ", ") + std::string(t.name);
    fail(ErrorKind::Unsupported, "{}: tensor {}: its dtype is {}; known are {}", file_, in_quotes(entry_.name),
         in_quotes(*text), known);
  }
  entry_.type = &*type;
}

void Parser::take_shape(const JsonValue& value) {
  if (value.kind != JsonValue::Kind::List) bad_entry("its shape is no array of whole numbers");
  if (value.list.size() > kMostDimensions) {
    bad_entry("it has {} dimensions; at most {} are allowed", value.list.size(), kMostDimensions);
  }
  uint64_t elements = 1;
  for (const MetadataScalar& side : value.list) {
    const auto* extent = std::get_if<uint64_t>(&side);
    if (extent == nullptr) bad_entry("its shape is no array of whole numbers");
    const auto product = checked_mul(elements, *extent);
    if (!product || !std::in_range<int64_t>(*product) || !std::in_range<int64_t>(*extent)) {
      bad_entry("a side is {}: with it the number of elements passes 2^63 - 1", *extent);
    }
    elements = *product;
    entry_.shape.push_back(static_cast<int64_t>(*extent));
  }
  entry_.elements = static_cast<int64_t>(elements);
  has_shape_ = true;
}

void Parser::take_offsets(const JsonValue& value) {
  const auto number = [&](size_t i) {
    const auto* offset = value.list.size() == 2 ? std::get_if<uint64_t>(&value.list[i]) : nullptr;
    if (offset == nullptr) bad_entry("its data_offsets are not two whole numbers");
    return *offset;
  };
  entry_offsets_ = Offsets{number(0), number(1)};
}

// All that an entry can say of itself.
void Parser::finish_entry() {
  in_entry_ = false;
  if (entry_.type == nullptr) bad_entry("it has no dtype");
  if (!has_shape_) bad_entry("it has no shape");
  if (!entry_offsets_) bad_entry("it has no data_offsets");
  const auto [begin, end] = *entry_offsets_;
  if (begin > end) bad_entry("its data begins at {} and ends before, at {}", begin, end);
  const auto bits = checked_mul(static_cast<uint64_t>(entry_.elements), static_cast<uint64_t>(entry_.type->bits));
  if (!bits) bad_entry("{} elements of {} need more than 2^64 - 1 bits", entry_.elements, entry_.type->name);
  if (*bits % 8 != 0 || *bits / 8 != end - begin) {
    bad_entry("it has the {} bytes {} to {} of the data, but {} elements of {} are {} bits", end - begin, begin, end,
              entry_.elements, entry_.type->name, *bits);
  }
  tensors_.emplace_back(Offsets{begin, end}, std::move(entry_));
}

// Gives every tensor its bytes. Together they are all of the data, each byte once.
void Parser::place(std::span<const std::byte> data) {
  uint64_t at = 0;
  for (auto& [offsets, tensor] : tensors_) {
    const auto [begin, end] = offsets;
    if (begin != at) {
      malformed("tensor {}: its data begins at byte {}, but the tensor before it ends at {}; tensors may not {}",
                in_quotes(tensor.name), begin, at, begin < at ? "overlap" : "leave a hole");
    }
    if (end > data.size()) {
      malformed(
          "tensor {}: it has the bytes {} to {} of the data, but only {} are in the file; it is cut short or "
          "damaged",
          in_quotes(tensor.name), begin, end, data.size());
    }
    tensor.bytes = data.subspan(begin, end - begin);
    at = end;
  }
  if (at != data.size()) {
    malformed("{} bytes follow the last tensor, which ends at byte {} of the data; nothing may follow",
              data.size() - at, at);
  }
}

}  // namespace

std::vector<SafetensorsTensor> parse_safetensors(std::span<const std::byte> bytes, const std::string& file,
                                                 HeaderBudget& budget) {
  return Parser(bytes, file, budget).parse();
}

}  // namespace lockstep
