// Reads the GGUF files the `gguf` package wrote and compares, as text, with what that package's reader says is in them
// (tests/oracle/make_gguf_fixtures.py describes the text).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(LOCKSTEP_FIXTURES) / "gguf" / name;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte >= 0x20 && byte <= 0x7e && c != '\\' ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return result;
}

std::string show(bool value) {
  return value ? "true" : "false";
}
std::string show(int64_t value) {
  return fmt::format("{}", value);
}
std::string show(uint64_t value) {
  return fmt::format("{}", value);
}
std::string show(double value) {
  return fmt::format("{:.17g}", value);
}
std::string show(std::string_view value) {
  return escaped(value);
}

std::string kind(bool) {
  return "bool";
}
std::string kind(int64_t) {
  return "int";
}
std::string kind(uint64_t) {
  return "uint";
}
std::string kind(double) {
  return "float";
}
std::string kind(std::string_view) {
  return "string";
}

struct Describe {
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
std::string hex(std::span<const std::byte> bytes) {
  std::string result;
  for (const auto byte : bytes) result += fmt::format("{:02x}", std::to_integer<int>(byte));
  return result;
}

std::string describe(const Checkpoint& checkpoint) {
  std::string lines;
  for (const auto& [key, value] : checkpoint.metadata().entries()) {
    lines += fmt::format("key {}: {}\n", key, std::visit(Describe{}, value.value));
  }
  for (const auto& tensor : checkpoint.tensors()) {
    lines += fmt::format("tensor {}: {} [{}] {}\n", tensor.name, info(tensor.dtype).name, fmt::join(tensor.shape, ", "),
                         hex(tensor.bytes));
  }
  return lines;
}

class GgufFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufFixture, HoldsWhatTheGgufPackageReads) {
  const auto checkpoint = Checkpoint::open(fixture(std::string(GetParam()) + ".gguf"));
  EXPECT_EQ(describe(*checkpoint), contents(fixture(std::string(GetParam()) + ".expected")));
}

INSTANTIATE_TEST_SUITE_P(Files, GgufFixture, ::testing::Values("types", "types_v2", "align64", "vocabulary_only"));

TEST(Gguf, NamesItsVersion) {
  EXPECT_EQ(Checkpoint::open(fixture("types.gguf"))->format(), "GGUF v3");
  EXPECT_EQ(Checkpoint::open(fixture("types_v2.gguf"))->format(), "GGUF v2");
}

TEST(Gguf, FindsEachTensorByName) {
  const auto checkpoint = Checkpoint::open(fixture("types.gguf"));
  ASSERT_EQ(checkpoint->tensors().size(), 8U);
  for (const auto& tensor : checkpoint->tensors()) EXPECT_EQ(checkpoint->find(tensor.name), &tensor);
  EXPECT_EQ(checkpoint->find("f32.weigh"), nullptr);
}

TEST(Gguf, CountsElementsAndFileBytes) {
  const auto checkpoint = Checkpoint::open(fixture("types.gguf"));
  EXPECT_EQ(checkpoint->find("bf16.weight")->elements, 2 * 3 * 4);
  EXPECT_EQ(checkpoint->file_bytes(), static_cast<int64_t>(std::filesystem::file_size(fixture("types.gguf"))));
}

TEST(Gguf, TensorsAreAlignedInMemory) {
  const auto checkpoint = Checkpoint::open(fixture("align64.gguf"));
  for (const auto& tensor : checkpoint->tensors()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % 64, 0U) << tensor.name;
  }
}

TEST(Gguf, ReadsWhatIsMapped) {
  for (const char* name : {"types.gguf", "split-00001-of-00003.gguf"}) {
    const auto checkpoint = Checkpoint::open(fixture(name));
    for (const auto& tensor : checkpoint->tensors()) {
      std::vector<std::byte> read(tensor.bytes.size());
      checkpoint->read(tensor.bytes, read.data());
      EXPECT_TRUE(std::equal(read.begin(), read.end(), tensor.bytes.begin())) << tensor.name;
    }
  }
}

TEST(Gguf, ThreadsMayReadTogether) {
  const auto checkpoint = Checkpoint::open(fixture("types.gguf"));
  const auto expected = contents(fixture("types.expected"));
  std::vector<std::string> seen(4);
  std::vector<std::thread> readers;
  for (auto& text : seen) readers.emplace_back([&] { text = describe(*checkpoint); });
  for (auto& reader : readers) reader.join();
  EXPECT_THAT(seen, ::testing::Each(expected));
}

TEST(GgufSplit, JoinsTheFilesOfASplit) {
  const auto checkpoint = Checkpoint::open(fixture("split-00001-of-00003.gguf"));
  std::string expected = contents(fixture("split-00001-of-00003.expected"));
  int64_t bytes = static_cast<int64_t>(std::filesystem::file_size(fixture("split-00001-of-00003.gguf")));
  for (const std::string part : {"split-00002-of-00003", "split-00003-of-00003"}) {
    const auto lines = contents(fixture(part + ".expected"));
    expected += lines.substr(lines.find("tensor "));
    bytes += static_cast<int64_t>(std::filesystem::file_size(fixture(part + ".gguf")));
  }
  EXPECT_EQ(describe(*checkpoint), expected);
  EXPECT_EQ(checkpoint->file_bytes(), bytes);
}

TEST(GgufSplit, SendsTheUserToTheFirstPart) {
  try {
    Checkpoint::open(fixture("split-00002-of-00003.gguf"));
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), HasSubstr("part 2 of 3"));
    EXPECT_THAT(error.what(), HasSubstr("split-00001-of-00003.gguf"));
  }
}

TEST(Gguf, NamesAFormatItCannotRun) {
  try {
    Checkpoint::open(fixture("q4_k.gguf"));
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_THAT(error.what(), HasSubstr("q4_k.gguf: tensor 'blk.0.attn_q.weight': its type is Q4_K"));
    EXPECT_THAT(error.what(), HasSubstr("F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0"));
  }
}

}  // namespace
}  // namespace lockstep
