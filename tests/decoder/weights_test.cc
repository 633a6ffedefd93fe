// Slices of real files, put together again: bit-equal to the whole, each element once or listed as shared, bytes as
// planned.
#include "decoder/weights.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <set>

#include "base/error.h"
#include "support/fake_checkpoint.h"
#include "support/tiny_models.h"

namespace lockstep {
namespace {

struct Loaded {
  Loaded(const TinyModel& model, const ShardPlan& plan) {
    auto groups = make_local_group(plan.tp_size(), {});
    for (int rank = 0; rank < plan.tp_size(); ++rank) {
      Team team({rank % 2 + 1, {}, {}});
      weights.push_back(std::make_unique<Weights>(model.spec, plan, rank, *model.checkpoint,
                                                  *supported_kernels().back(), *groups[static_cast<size_t>(rank)], team,
                                                  nullptr));
    }
  }
  std::vector<std::unique_ptr<Weights>> weights;
};

// What a rank holds of row `row`, as floats.
std::vector<float> row_of(const Weight& weight, int64_t row) {
  if (weight.vector != nullptr) return {weight.vector[row]};
  std::vector<float> values(static_cast<size_t>(weight.matrix.cols));
  supported_kernels().back()->dequantize(weight.matrix.dtype, weight.matrix.data + row * weight.matrix.row_bytes,
                                         weight.matrix.lead, weight.matrix.cols, values.data());
  return values;
}

std::vector<float> whole_of(const TensorInfo& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements));
  const int64_t rows = tensor.shape.size() == 2 ? tensor.shape[0] : 1;
  const int64_t cols = tensor.elements / rows;
  for (int64_t row = 0; row < rows; ++row) {
    supported_kernels().back()->dequantize(tensor.dtype, tensor.bytes.data() + row * row_bytes(tensor.dtype, cols), 0,
                                           cols, values.data() + row * cols);
  }
  return values;
}

class Slices : public testing::TestWithParam<std::string> {};

TEST_P(Slices, PutTogetherAreTheWhole) {
  const TinyModel model(GetParam());
  for (int size = 1; size <= std::min<int64_t>(8, largest_tp_size(model.spec)); ++size) {
    const ShardPlan plan = make_plan(model.spec, {.tp_size = size});
    const Loaded loaded(model, plan);
    std::vector<int64_t> shared(static_cast<size_t>(size));
    for (const TensorPlan& tensor : plan.tensors) {
      const WeightSpec& spec = model.spec.weights[static_cast<size_t>(tensor.weight)];
      const std::vector<float> whole = whole_of(*model.checkpoint->find(spec.name));
      const int64_t cols = spec.in.size();
      std::vector<int> holders(whole.size());
      for (int rank = 0; rank < size; ++rank) {
        const Slice& slice = tensor.slices[static_cast<size_t>(rank)];
        const Weight& weight = loaded.weights[static_cast<size_t>(rank)]->get(spec.role, spec.layer);
        const bool by_columns = tensor.strategy == Strategy::RowParallel;
        if (slice.begin == slice.end) continue;
        for (int64_t row = 0; row < weight.matrix.rows; ++row) {
          const std::vector<float> part = row_of(weight, row);
          const int64_t first = by_columns ? row * cols + slice.begin : (slice.begin + row) * cols;
          ASSERT_EQ(std::memcmp(part.data(), whole.data() + first, part.size() * sizeof(float)), 0)
              << spec.name << " rank " << rank << " of " << size << " row " << row;
          for (size_t i = 0; i < part.size(); ++i) ++holders[static_cast<size_t>(first) + i];
        }
      }
      // Elements that several ranks hold, by the plan's slices: exactly those.
      const auto planned = [&](int64_t row, int64_t col) {
        int ranks = 0;
        for (const Slice& slice : tensor.slices) {
          const int64_t at = tensor.strategy == Strategy::RowParallel ? col : row;
          ranks += slice.begin <= at && at < slice.end;
        }
        return ranks;
      };
      bool any_shared = false;
      for (size_t i = 0; i < holders.size(); ++i) {
        ASSERT_GE(holders[i], 1) << spec.name << " element " << i << " of " << size << " ranks";
        const auto element = static_cast<int64_t>(i);
        ASSERT_EQ(holders[i], planned(element / cols, element % cols)) << spec.name << " element " << i;
        any_shared = any_shared || holders[i] > 1;
      }
      // Several hold exactly what the plan lists; where columns are divided, only blocks around a boundary.
      for (int64_t row = 0; row < spec.out.size() && !tensor.by_columns(); ++row) {
        const bool listed = std::any_of(tensor.shared.begin(), tensor.shared.end(), [&](const SharedRange& range) {
          return range.begin <= row && row < range.end;
        });
        ASSERT_EQ(listed, holders[static_cast<size_t>(row * cols)] > 1) << spec.name << " row " << row;
      }
      if (any_shared) {
        // Only what every rank needs whole, and KV heads whose query heads two ranks share.
        EXPECT_TRUE(tensor.strategy == Strategy::Replicated || spec.out.axis == Axis::KvHeads) << spec.name;
      }
    }
  }
}

TEST_P(Slices, TakeThePlannedBytes) {
  const TinyModel model(GetParam());
  for (int size = 1; size <= std::min<int64_t>(8, largest_tp_size(model.spec)); ++size) {
    const ShardPlan plan = make_plan(model.spec, {.tp_size = size});
    const Loaded loaded(model, plan);
    int64_t read = 0, replicated = 0;
    for (int rank = 0; rank < size; ++rank) {
      const auto& weights = *loaded.weights[static_cast<size_t>(rank)];
      EXPECT_EQ(weights.bytes(), plan.ranks[static_cast<size_t>(rank)].weight_bytes);
      read += weights.read_bytes();
      replicated += plan.ranks[static_cast<size_t>(rank)].replicated_bytes;
    }
    int64_t file = 0;
    for (const TensorInfo& tensor : model.checkpoint->tensors()) file += static_cast<int64_t>(tensor.bytes.size());
    EXPECT_GE(read, file);
    EXPECT_LE(read, file + replicated) << "N = " << size;
    EXPECT_EQ(replicated == 0, size == 1);
  }
}

// The two tests above see every format divided over 1 to 8 ranks, row-parallel matrices included.
TEST(SlicesCoverage, EveryFormatIsDividedByEight) {
  std::set<DType> divided;
  for (const std::string& name : tiny_model_names()) {
    const TinyModel model(name);
    if (largest_tp_size(model.spec) < 8) continue;
    for (const WeightSpec& weight : model.spec.weights) {
      if (weight.in.axis == Axis::Heads || weight.in.axis == Axis::Ffn) divided.insert(weight.dtype);
    }
  }
  EXPECT_EQ(divided.size(), dtype_table().size());
}

// Rows of more than 8 KiB, whose runs are read one by one; and shorter ones that no span of rows ends with.
TEST(WeightsRead, RowsOfAnyLengthGiveTheirRuns) {
  for (const int64_t ffn : {160, 2048, 2112, 5000}) {
    FakeCheckpoint file = fake_llama({.hidden = 96, .heads = 6, .kv_heads = 2, .head_dim = 16, .ffn = ffn});
    std::vector<std::vector<std::byte>> data;
    std::mt19937 random(7);
    for (TensorInfo& tensor : file.list) {
      auto& bytes = data.emplace_back(static_cast<size_t>(tensor.elements) * 4);
      std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
      tensor.bytes = bytes;
    }
    const ModelSpec spec = read_model(file);
    const ShardPlan plan = make_plan(spec, {.tp_size = 3});
    auto groups = make_local_group(3, {});
    for (int rank = 0; rank < 3; ++rank) {
      Team team({2, {}, {}});
      const Weights weights(spec, plan, rank, file, *supported_kernels().back(), *groups[static_cast<size_t>(rank)],
                            team, nullptr);
      const Weight& down = weights.get(Role::FfnDown, 1);
      const Slice& slice = down.plan->slices[static_cast<size_t>(rank)];
      const std::byte* whole = file.find("blk.1.ffn_down.weight")->bytes.data();
      ASSERT_EQ(down.matrix.rows, 96);
      ASSERT_EQ(down.matrix.row_bytes, (slice.end - slice.begin) * 4);
      for (int64_t row = 0; row < 96; ++row) {
        ASSERT_EQ(std::memcmp(down.matrix.data + row * down.matrix.row_bytes, whole + (row * ffn + slice.begin) * 4,
                              static_cast<size_t>(down.matrix.row_bytes)),
                  0)
            << "row " << row << " of rank " << rank << ", feed-forward " << ffn;
      }
    }
  }
}

// Cut short after it was opened and checked, wherever that is: an error, neither a signal nor weights of nothing.
TEST(WeightsRead, AFileThatWasCutShortIsNamed) {
  const std::filesystem::path path = testing::TempDir() + "lockstep-cut-" + std::to_string(::getpid()) + ".gguf";
  for (const double part : {0.05, 0.5, 0.999}) {
    std::filesystem::copy_file(LOCKSTEP_FIXTURES "/tiny/blocks_q8_0.gguf", path,
                               std::filesystem::copy_options::overwrite_existing);
    const TinyModel model(Checkpoint::open(path));
    std::filesystem::resize_file(path,
                                 static_cast<uintmax_t>(part * static_cast<double>(model.checkpoint->file_bytes())));
    const ShardPlan plan = make_plan(model.spec, {.tp_size = 2});
    try {
      const Loaded loaded(model, plan);
      FAIL() << "loaded";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Io);
      EXPECT_NE(std::string(error.what()).find(path.string() + ": it ends before byte"), std::string::npos);
    }
  }
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, Slices, testing::ValuesIn(tiny_model_names()), [](const auto& name) {
  std::string clean = name.param;
  std::replace_if(
      clean.begin(), clean.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return clean;
});

}  // namespace
}  // namespace lockstep
