// A GGUF file built byte by byte, so that a test can write what no tool would. Nothing is checked and no count is kept:
// the caller says every number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Type ids of the format.
enum GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
};
enum GgmlType : uint32_t { kTensorF32 = 0, kTensorQ8_0 = 8, kTensorIQ2_XXS = 16 };

class GgufWriter {
 public:
  template <class T>
  GgufWriter& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  GgufWriter& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  GgufWriter& string(std::string_view text) { return number<uint64_t>(text.size()).raw(text); }
  GgufWriter& zeros(size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }

  GgufWriter& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return raw("GGUF").number(version).number(tensors).number(keys);
  }
  // A key and the type of its value; the value follows.
  GgufWriter& key(std::string_view name, uint32_t type) { return string(name).number(type); }
  GgufWriter& array(std::string_view name, uint32_t type, uint64_t count) {
    return key(name, kArray).number(type).number(count);
  }
  GgufWriter& tensor(std::string_view name, const std::vector<uint64_t>& dimensions, uint32_t type, uint64_t offset) {
    string(name).number(static_cast<uint32_t>(dimensions.size()));
    for (const auto extent : dimensions) number(extent);
    return number(type).number(offset);
  }
  GgufWriter& pad(size_t alignment = 32) { return zeros((alignment - bytes_.size() % alignment) % alignment); }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// A small file that is right: two keys, an array of strings, a tensor of F32 and one of Q8_0 (64 and 68 bytes).
inline std::string valid_gguf() {
  return GgufWriter()
      .header(2, 3)
      .key("general.architecture", kString)
      .string("llama")
      .key("llama.block_count", kU32)
      .number<uint32_t>(2)
      .array("tokenizer.ggml.tokens", kString, 2)
      .string("a")
      .string("")
      .tensor("norm", {16}, kTensorF32, 0)
      .tensor("matrix", {32, 2}, kTensorQ8_0, 64)
      .pad()
      .zeros(64 + 68)
      .bytes();
}

}  // namespace lockstep
