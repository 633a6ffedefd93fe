// Reads the GGUF files the `gguf` package wrote and compares, as text, with what that package's reader says is in them
// (tests/oracle/make_gguf_fixtures.py describes the text).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/describe.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(LOCKSTEP_FIXTURES) / "gguf" / name;
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
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.parts.at(0).bytes.data()) % 64, 0U) << tensor.name;
  }
}

TEST(Gguf, ReadsWhatIsMapped) {
  for (const char* name : {"types.gguf", "split-00001-of-00003.gguf"}) {
    const auto checkpoint = Checkpoint::open(fixture(name));
    for (const auto& tensor : checkpoint->tensors()) {
      const auto mapped = tensor.parts.at(0).bytes;
      std::vector<std::byte> read(mapped.size());
      checkpoint->read(mapped, read.data());
      EXPECT_TRUE(std::equal(read.begin(), read.end(), mapped.begin())) << tensor.name;
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
    Checkpoint::open(fixture("iq2_xxs.gguf"));
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_THAT(error.what(), HasSubstr("iq2_xxs.gguf: tensor 'blk.0.attn_q.weight': its type is IQ2_XXS"));
    EXPECT_THAT(error.what(), HasSubstr("F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K"));
  }
}

}  // namespace
}  // namespace lockstep
