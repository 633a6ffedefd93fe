// A checkpoint as text: what the scripts in tests/oracle/ write of the same file, line for line.
#pragma once

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace lockstep {

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte >= 0x20 && byte <= 0x7e && c != '\\' ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return result;
}

inline std::string show(bool value) {
  return value ? "true" : "false";
}
inline std::string show(int64_t value) {
  return fmt::format("{}", value);
}
inline std::string show(uint64_t value) {
  return fmt::format("{}", value);
}
inline std::string show(double value) {
  return fmt::format("{:.17g}", value);
}
inline std::string show(std::string_view value) {
  return escaped(value);
}

inline std::string kind(bool) {
  return "bool";
}
inline std::string kind(int64_t) {
  return "int";
}
inline std::string kind(uint64_t) {
  return "uint";
}
inline std::string kind(double) {
  return "float";
}
inline std::string kind(std::string_view) {
  return "string";
}

struct Describe {
  std::string operator()(const UnreadableList&) const { return "list:unreadable"; }
  std::string operator()(const MetadataScalar& scalar) const {
    return std::visit([](auto value) { return kind(value) + " " + show(value); }, scalar);
  }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::vector<std::string> values;
    for (const T value : list) values.push_back(show(value));
    return fmt::format("{}[] {}", kind(T{}), fmt::join(values, " "));
  }
};

// Reads every byte of the tensor.
inline std::string hex(std::span<const std::byte> bytes) {
  std::string result;
  for (const auto byte : bytes) result += fmt::format("{:02x}", std::to_integer<int>(byte));
  return result;
}

inline std::string describe(const Checkpoint& checkpoint) {
  std::string lines;
  for (const auto& [key, value] : checkpoint.metadata().entries()) {
    lines += fmt::format("key {}: {}\n", key, std::visit(Describe{}, value.value));
  }
  const auto add = [&](const char* what, const auto& tensor, std::string_view dtype) {
    lines += fmt::format("{} {}: {} [{}]", what, tensor.name, dtype, fmt::join(tensor.shape, ", "));
  };
  for (const auto& tensor : checkpoint.tensors()) {
    add("tensor", tensor, info(tensor.dtype).name);
    for (const auto& part : tensor.parts) lines += fmt::format(" {}", hex(part.bytes));
    lines += '\n';
  }
  for (const auto& tensor : checkpoint.unusable()) {
    add("unusable", tensor, tensor.dtype);
    lines += fmt::format(" {}\n", hex(tensor.bytes));
  }
  return lines;
}

}  // namespace lockstep
