// The GGUF parser: a cursor over the bytes that checks before every step, then metadata, tensor table and data.
#include "checkpoint/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/quoted.h"
#include "base/utf8.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in the file");

constexpr uint64_t kLeastStringBytes = 8;                      // a length of 0
constexpr uint64_t kLeastKeyBytes = 8 + 1 + 4 + 1;             // length, one letter, type, one-byte value
constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // length, one letter, count, one dimension, type, offset
constexpr uint64_t kMostKeyBytes = 65535;                      // as the specification says
constexpr uint64_t kMostNameBytes = 64;                        // as the specification says
constexpr uint32_t kMostDimensions = 4;                        // as the specification says
constexpr int64_t kDefaultAlignment = 32;
constexpr uint64_t kKeyMemory = 192;     // a map node and what the allocator adds
constexpr uint64_t kTensorMemory = 448;  // TensorInfo, its name and shape, its place in the index of names

enum class ValueType : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };
constexpr uint32_t kValueTypes = 13;

// Calls use(std::type_identity<T>) with the C++ type of a value that is no array.
template <class Use>
auto with_type(ValueType type, Use use) {
  switch (type) {
    case ValueType::U8:
      return use(std::type_identity<uint8_t>());
    case ValueType::I8:
      return use(std::type_identity<int8_t>());
    case ValueType::U16:
      return use(std::type_identity<uint16_t>());
    case ValueType::I16:
      return use(std::type_identity<int16_t>());
    case ValueType::U32:
      return use(std::type_identity<uint32_t>());
    case ValueType::I32:
      return use(std::type_identity<int32_t>());
    case ValueType::U64:
      return use(std::type_identity<uint64_t>());
    case ValueType::I64:
      return use(std::type_identity<int64_t>());
    case ValueType::F32:
      return use(std::type_identity<float>());
    case ValueType::F64:
      return use(std::type_identity<double>());
    case ValueType::Bool:
      return use(std::type_identity<bool>());
    case ValueType::String:
      return use(std::type_identity<std::string_view>());
    case ValueType::Array:
      break;
  }
  fail(ErrorKind::Internal, "an array of a GGUF file was taken for a single value");
}

// Formats that exist and that nothing here can run, by the id GGUF gives them.
struct ForeignFormat {
  uint32_t id;
  std::string_view name;
};
constexpr ForeignFormat kForeignFormats[] = {
    {4, "Q4_2"},      {5, "Q4_3"},   {9, "Q8_1"},   {15, "Q8_K"},       {16, "IQ2_XXS"},    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},  {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},      {24, "I8"},         {25, "I16"},
    {26, "I32"},      {27, "I64"},   {28, "F64"},   {29, "IQ1_M"},      {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"}, {34, "TQ1_0"}, {35, "TQ2_0"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
    {40, "NVFP4"},    {41, "Q1_0"},
};

std::string known_formats() {
  std::string names;
  for (const auto& format : dtype_table()) {
    if (!format.ggml_type) continue;
    if (!names.empty()) names += ", ";
    names += format.name;
  }
  return names;
}

// Where a tensor says its data lies: bytes from the beginning of the data.
struct Extent {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// What is being read, for messages: by its name once that is known, by its number before.
struct Subject {
  std::string_view what;
  std::string_view name = {};  // in the file
  uint64_t number = 0;         // counted from 1; 0 when there is only one
  uint64_t count = 0;

  std::string show() const {
    if (!name.empty()) return fmt::format("{} {}", what, in_quotes(name));
    if (number > 0) return fmt::format("{} {} of {}", what, number, count);
    return std::string(what);
  }
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& file, HeaderBudget& budget)
      : bytes_(bytes), file_(file), budget_(budget) {}

  GgufFile parse();

 private:
  // The file, the thing being read and what is wrong with it.
  template <class... Args>
  [[noreturn]] void refuse(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) const {
    fail(kind, "{}: {}: {}", file_, subject_.show(), fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void malformed(fmt::format_string<Args...> format, Args&&... args) const {
    refuse(ErrorKind::Malformed, format, std::forward<Args>(args)...);
  }

  uint64_t remaining() const { return bytes_.size() - position_; }
  std::span<const std::byte> take(uint64_t size);
  template <class T>
  T number();
  std::string_view string();
  std::string_view name(std::string_view what, uint64_t most_bytes);
  void check_count(std::string_view what, uint64_t count, uint64_t least_bytes) const;

  uint32_t version();
  void key_and_value(Metadata& metadata);
  ValueType value_type();
  MetadataScalar scalar(ValueType type);
  MetadataValue array();
  bool boolean();
  template <class T>
  auto widened();  // the next T of the file, as double, int64_t or uint64_t
  template <class T>
  auto value();  // the next T, or bool, or string_view
  template <class T>
  MetadataValue numbers(uint64_t count);
  MetadataValue booleans(uint64_t count);
  MetadataValue strings(uint64_t count);

  uint64_t alignment(const Metadata& metadata);
  Extent tensor_entry(TensorInfo& tensor, uint64_t alignment);
  DType format_with_id(uint32_t type) const;
  void place(std::vector<TensorInfo>& tensors, const std::vector<Extent>& extents, uint64_t data_begin);
  void refuse_overlap(const std::vector<TensorInfo>& tensors, const std::vector<Extent>& extents);

  std::span<const std::byte> bytes_;
  const std::string& file_;
  HeaderBudget& budget_;
  uint64_t position_ = 0;  // always <= bytes_.size()
  Subject subject_ = {.what = "header"};
};

GgufFile Parser::parse() {
  GgufFile result{.version = version(), .metadata = Metadata(file_), .tensors = {}};
  const auto tensor_count = number<uint64_t>();
  const auto key_count = number<uint64_t>();
  check_count("metadata keys", key_count, kLeastKeyBytes);
  for (uint64_t i = 0; i < key_count; ++i) {
    subject_ = {.what = "metadata key", .number = i + 1, .count = key_count};
    key_and_value(result.metadata);
  }
  const uint64_t align = alignment(result.metadata);

  subject_ = {.what = "tensor table"};
  check_count("tensors", tensor_count, kLeastTensorBytes);
  budget_.charge(file_, tensor_count * kTensorMemory);
  result.tensors.resize(tensor_count);
  std::vector<Extent> extents(tensor_count);
  for (uint64_t i = 0; i < tensor_count; ++i) {
    subject_ = {.what = "tensor", .number = i + 1, .count = tensor_count};
    extents[i] = tensor_entry(result.tensors[i], align);
  }
  place(result.tensors, extents, (position_ + align - 1) / align * align);
  return result;
}

std::span<const std::byte> Parser::take(uint64_t size) {
  if (size > remaining()) {
    malformed("{} bytes are wanted at byte {}, but the file ends at byte {}; it is cut short or damaged", size,
              position_, bytes_.size());
  }
  const auto taken = bytes_.subspan(position_, size);
  position_ += size;
  return taken;
}

template <class T>
T Parser::number() {
  T value;
  std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
  return value;
}

std::string_view Parser::string() {
  const auto taken = take(number<uint64_t>());
  budget_.charge(file_, taken.size());
  return {reinterpret_cast<const char*>(taken.data()), taken.size()};
}

// The name of a key or a tensor.
std::string_view Parser::name(std::string_view what, uint64_t most_bytes) {
  const auto text = string();
  if (text.empty() || text.size() > most_bytes) {
    malformed("{} {} has {} bytes; allowed are 1 to {}", what, in_quotes(text), text.size(), most_bytes);
  }
  if (!is_utf8(text)) malformed("{} {} is not UTF-8", what, in_quotes(text));
  return text;
}

// `count` items of at least `least_bytes` each must still be in the file.
void Parser::check_count(std::string_view what, uint64_t count, uint64_t least_bytes) const {
  const uint64_t most = remaining() / least_bytes;
  if (count > most) {
    malformed("{} {} are announced at byte {}, but the {} bytes left hold at most {}", count, what, position_,
              remaining(), most);
  }
}

uint32_t Parser::version() {
  const auto magic = take(4);
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    malformed("it begins with {}; a GGUF file begins with 'GGUF'",
              in_quotes({reinterpret_cast<const char*>(magic.data()), 4}));
  }
  const auto version = number<uint32_t>();
  if (version == 2 || version == 3) return version;
  if ((version & 0xffff) == 0 && version != 0) {
    refuse(ErrorKind::Unsupported, "the file is big-endian; only little-endian files can be read: convert it again");
  }
  refuse(ErrorKind::Unsupported, "the file is GGUF v{}; versions 2 and 3 can be read: convert it again", version);
}

void Parser::key_and_value(Metadata& metadata) {
  const auto key = name("the key", kMostKeyBytes);
  budget_.charge(file_, kKeyMemory + key.size());
  subject_ = {.what = "metadata key", .name = key};
  const auto type = value_type();
  metadata.insert(std::string(key), type == ValueType::Array ? array() : MetadataValue{scalar(type)});
}

ValueType Parser::value_type() {
  const auto type = number<uint32_t>();
  if (type >= kValueTypes) malformed("the value has type {}; types are 0 to {}", type, kValueTypes - 1);
  return static_cast<ValueType>(type);
}

template <class T>
auto Parser::widened() {
  const T value = number<T>();
  if constexpr (std::is_floating_point_v<T>) {
    return double{value};
  } else if constexpr (std::is_signed_v<T>) {
    return int64_t{value};
  } else {
    return uint64_t{value};
  }
}

bool Parser::boolean() {
  const auto value = number<uint8_t>();
  if (value > 1) malformed("a bool is {}; allowed are 0 and 1", value);
  return value == 1;
}

template <class T>
MetadataValue Parser::numbers(uint64_t count) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  check_count("numbers", count, sizeof(T));
  budget_.charge(file_, count * (sizeof(T) + sizeof(Wide)));
  std::vector<Wide> list(count);
  for (auto& element : list) {
    const auto value = widened<T>();
    if constexpr (std::is_integral_v<T>) {
      if (!std::in_range<int64_t>(value)) malformed("an element is {}; at most 2^63 - 1 is allowed", value);
    }
    element = static_cast<Wide>(value);
  }
  return {std::move(list)};
}

MetadataValue Parser::booleans(uint64_t count) {
  check_count("bools", count, 1);
  budget_.charge(file_, count + count / 8);
  std::vector<bool> list(count);
  for (uint64_t i = 0; i < count; ++i) list[i] = boolean();
  return {std::move(list)};
}

MetadataValue Parser::strings(uint64_t count) {
  check_count("strings", count, kLeastStringBytes);
  budget_.charge(file_, count * (kLeastStringBytes + sizeof(std::string_view)));
  std::vector<std::string_view> list(count);
  for (auto& element : list) element = string();
  return {std::move(list)};
}

template <class T>
auto Parser::value() {
  if constexpr (std::is_same_v<T, bool>) {
    return boolean();
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    return string();
  } else {
    return widened<T>();
  }
}

MetadataScalar Parser::scalar(ValueType type) {
  return with_type(type, [this]<class T>(std::type_identity<T>) -> MetadataScalar { return value<T>(); });
}

MetadataValue Parser::array() {
  const auto type = value_type();
  const auto count = number<uint64_t>();
  if (type == ValueType::Array) {
    refuse(ErrorKind::Unsupported, "the value is an array of arrays; arrays of numbers, bools and strings can be read");
  }
  return with_type(type, [this, count]<class T>(std::type_identity<T>) -> MetadataValue {
    if constexpr (std::is_same_v<T, bool>) {
      return booleans(count);
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      return strings(count);
    } else {
      return numbers<T>(count);
    }
  });
}

uint64_t Parser::alignment(const Metadata& metadata) {
  constexpr std::string_view kKey = "general.alignment";
  const auto value = metadata.get_int(kKey, 8, int64_t{1} << 30).value_or(kDefaultAlignment);
  const auto alignment = static_cast<uint64_t>(value);
  subject_ = {.what = "metadata key", .name = kKey};
  if (!std::has_single_bit(alignment)) malformed("it is {}; a power of two from 8 up is allowed", alignment);
  return alignment;
}

DType Parser::format_with_id(uint32_t type) const {
  if (const auto dtype = dtype_from_ggml(type)) return *dtype;
  for (const auto& format : kForeignFormats) {
    if (format.id == type) {
      refuse(ErrorKind::Unsupported, "its type is {}, which cannot be run here; these can: {}", format.name,
             known_formats());
    }
  }
  malformed("its type is {}, which names no format; these can be run: {}", type, known_formats());
}

// Reads one line of the tensor table; everything of `tensor` is filled in but its bytes.
Extent Parser::tensor_entry(TensorInfo& tensor, uint64_t alignment) {
  const auto text = name("the name", kMostNameBytes);
  tensor.name = text;
  subject_ = {.what = "tensor", .name = text};
  const auto dimensions = number<uint32_t>();
  if (dimensions < 1 || dimensions > kMostDimensions) {
    malformed("it has {} dimensions; allowed are 1 to {}", dimensions, kMostDimensions);
  }
  tensor.shape.resize(dimensions);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    const auto extent = number<uint64_t>();
    const auto product = checked_mul(elements, extent);
    if (extent == 0) malformed("dimension {} is 0; it must be at least 1", i);
    if (!product || !std::in_range<int64_t>(*product)) {
      malformed("dimension {} is {}: with it the number of elements passes 2^63 - 1", i, extent);
    }
    elements = *product;
    tensor.shape[dimensions - 1 - i] = static_cast<int64_t>(extent);
  }
  tensor.elements = static_cast<int64_t>(elements);
  tensor.dtype = format_with_id(number<uint32_t>());
  const auto& format = info(tensor.dtype);
  const auto block = static_cast<uint64_t>(format.block_elements);
  if (tensor.shape.back() % format.block_elements != 0) {
    malformed("its rows have {} elements; {} needs a multiple of {}", tensor.shape.back(), format.name, block);
  }
  const auto size = checked_mul(elements / block, static_cast<uint64_t>(format.block_bytes));
  if (!size) malformed("{} elements of {} need more than 2^64 - 1 bytes", elements, format.name);
  const auto offset = number<uint64_t>();
  if (offset % alignment != 0) malformed("its offset is {}; it must be a multiple of {}", offset, alignment);
  return {offset, *size};
}

// Gives every tensor its bytes; the data begins at byte `data_begin` of the file.
void Parser::place(std::vector<TensorInfo>& tensors, const std::vector<Extent>& extents, uint64_t data_begin) {
  const uint64_t data_bytes = bytes_.size() - std::min<uint64_t>(data_begin, bytes_.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [offset, size] = extents[i];
    if (offset > data_bytes || size > data_bytes - offset) {
      subject_ = {.what = "tensor", .name = tensors[i].name};
      malformed(
          "it has {} bytes at offset {} of the data, but only {} bytes of data are in the file; it is cut short or "
          "damaged",
          size, offset, data_bytes);
    }
    tensors[i].parts = {{bytes_.subspan(data_begin + offset, size), info(tensors[i].dtype).block_bytes, 0}};
  }
  refuse_overlap(tensors, extents);
}

void Parser::refuse_overlap(const std::vector<TensorInfo>& tensors, const std::vector<Extent>& extents) {
  std::vector<uint32_t> order(tensors.size());  // by offset
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return extents[a].offset < extents[b].offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const auto& before = extents[order[i - 1]];
    const auto& after = extents[order[i]];
    if (before.offset + before.size > after.offset) {
      subject_ = {.what = "tensor", .name = tensors[order[i]].name};
      malformed("it begins at offset {} of the data, inside tensor {} of {} bytes at {}", after.offset,
                in_quotes(tensors[order[i - 1]].name), before.size, before.offset);
    }
  }
}

}  // namespace

GgufFile parse_gguf(std::span<const std::byte> bytes, const std::string& file, HeaderBudget& budget) {
  return Parser(bytes, file, budget).parse();
}

}  // namespace lockstep
