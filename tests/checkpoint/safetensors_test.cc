// Reads the checkpoints that the `safetensors` package and MLX wrote and compares, as text, with what they say is in
// them (tests/oracle/make_safetensors_fixtures.py describes the text).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/describe.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(LOCKSTEP_FIXTURES) / "safetensors" / name;
}

class SafetensorsFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(SafetensorsFixture, HoldsWhatItsWriterSays) {
  const auto checkpoint = Checkpoint::open(fixture(GetParam()));
  EXPECT_EQ(describe(*checkpoint), contents(fixture(std::string(GetParam()) + ".expected")));
  EXPECT_EQ(checkpoint->format(), "safetensors");
  EXPECT_EQ(checkpoint->naming(), Naming::HuggingFace);
}

INSTANTIATE_TEST_SUITE_P(Folders, SafetensorsFixture, ::testing::Values("plain", "sharded", "mlx"));

TEST(Safetensors, IsOpenedByFolderFileOrIndex) {
  EXPECT_EQ(describe(*Checkpoint::open(fixture("plain/model.safetensors"))), contents(fixture("plain.expected")));
  EXPECT_EQ(describe(*Checkpoint::open(fixture("sharded/model.safetensors.index.json"))),
            contents(fixture("sharded.expected")));
}

TEST(Safetensors, FindsEachTensorByName) {
  const auto checkpoint = Checkpoint::open(fixture("mlx"));
  for (const auto& tensor : checkpoint->tensors()) EXPECT_EQ(checkpoint->find(tensor.name), &tensor);
  EXPECT_EQ(checkpoint->find("layers.00.proj.scales"), nullptr);
  EXPECT_EQ(checkpoint->find("layers.00.proj"), nullptr);
}

TEST(Safetensors, RefusesAnUnusableTensorWhenItIsWanted) {
  const auto checkpoint = Checkpoint::open(fixture("plain"));
  try {
    checkpoint->find("layer.int64.\u6f22");
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_THAT(error.what(), HasSubstr("model.safetensors: tensor 'layer.int64.\u6f22' is I64; a weight may be"));
  }
}

// Parts lie in the blocks of the dtype without a gap and without an overlap.
TEST(Safetensors, PartsMakeWholeBlocks) {
  const auto checkpoint = Checkpoint::open(fixture("mlx"));
  for (const auto& tensor : checkpoint->tensors()) {
    const auto& format = info(tensor.dtype);
    int64_t at = 0;
    for (const auto& part : tensor.parts) {
      EXPECT_EQ(part.offset, at) << tensor.name;
      EXPECT_EQ(static_cast<int64_t>(part.bytes.size()), tensor.elements / format.block_elements * part.block_bytes)
          << tensor.name;
      at += part.block_bytes;
    }
    EXPECT_EQ(at, format.block_bytes) << tensor.name;
    EXPECT_EQ(tensor.bytes(), tensor.elements / format.block_elements * format.block_bytes) << tensor.name;
  }
}

TEST(Safetensors, ReadsWhatIsMappedOfEveryShard) {
  const auto checkpoint = Checkpoint::open(fixture("sharded"));
  int64_t bytes = 0;
  for (const auto& path : checkpoint->files()) bytes += static_cast<int64_t>(std::filesystem::file_size(path));
  EXPECT_EQ(checkpoint->file_bytes(), bytes);
  EXPECT_THAT(checkpoint->files(), ElementsAre(fixture("sharded/model-00001-of-00002.safetensors"),
                                               fixture("sharded/model-00002-of-00002.safetensors")));
  for (const auto& tensor : checkpoint->tensors()) {
    const auto mapped = tensor.parts.at(0).bytes;
    std::vector<std::byte> read(mapped.size());
    checkpoint->read(mapped, read.data());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), mapped.begin())) << tensor.name;
  }
}

TEST(Safetensors, SendsTheUserFromAShardToTheIndex) {
  try {
    Checkpoint::open(fixture("sharded/model-00002-of-00002.safetensors"));
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), HasSubstr("model.safetensors.index.json or its folder"));
  }
}

}  // namespace
}  // namespace lockstep
