// Slices of real files, put together again: bit-equal to the whole, each element once or listed as shared, bytes as
// planned.
#include "decoder/weights.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
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
    supported_kernels().back()->dequantize(tensor.dtype,
                                           tensor.parts.at(0).bytes.data() + row * row_bytes(tensor.dtype, cols), 0,
                                           cols, values.data() + row * cols);
  }
  return values;
}

std::string name_of_test(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return text;
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
      for (int64_t row = 0; row < spec.out.size() && !tensor.by_columns; ++row) {
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
    for (const TensorInfo& tensor : model.checkpoint->tensors()) file += tensor.bytes();
    EXPECT_GE(read, file);
    EXPECT_LE(read, file + replicated) << "N = " << size;
    EXPECT_EQ(replicated == 0, size == 1);
  }
}

// A Llama of one layer whose matrices are random blocks of a format, stored in the parts of that format; and the
// blocks.
struct RandomBlocks {
  explicit RandomBlocks(DType dtype)
      : file(fake_llama(
            {.hidden = 256, .heads = 8, .head_dim = 32, .ffn = 512, .vocab = 11, .layers = 1, .dtype = dtype})) {
    std::mt19937 random(7);
    for (TensorInfo& tensor : file.list) {
      const DTypeInfo& format = info(tensor.dtype);
      const int64_t count = tensor.elements / format.block_elements;
      auto& whole = blocks[tensor.name];
      whole.resize(static_cast<size_t>(count * format.block_bytes));
      std::generate(whole.begin(), whole.end(), [&] { return static_cast<std::byte>(random()); });
      std::vector<int64_t> sizes{format.block_bytes};
      if (format.mlx) {
        sizes = {format.mlx->scale_bytes, format.mlx->bias_bytes, format.block_bytes - format.mlx->codes_at()};
        std::erase(sizes, 0);
      }
      int64_t offset = 0;
      for (const int64_t size : sizes) {
        auto& bytes = stored.emplace_back();
        for (int64_t i = 0; i < count; ++i) {
          const auto from = whole.begin() + i * format.block_bytes + offset;
          bytes.insert(bytes.end(), from, from + size);
        }
        tensor.parts.push_back({bytes, size, offset});
        offset += size;
      }
    }
  }

  FakeCheckpoint file;
  std::map<std::string, std::vector<std::byte>> blocks;
  std::deque<std::vector<std::byte>> stored;
};

class Formats : public testing::TestWithParam<DTypeInfo> {};

// Whatever the format and wherever its parts lie, a rank holds the stored blocks of its slice, and together the ranks
// hold all of them.
TEST_P(Formats, AreDividedByUpToEight) {
  const RandomBlocks model(GetParam().dtype);
  const ModelSpec spec = read_model(model.file);
  for (int size = 1; size <= 8; ++size) {
    const ShardPlan plan = make_plan(spec, {.tp_size = size});
    auto groups = make_local_group(size, {});
    std::map<std::string, std::vector<bool>> held;  // of every stored block: does some rank hold it?
    for (int rank = 0; rank < size; ++rank) {
      Team team({rank % 2 + 1, {}, {}});
      const Weights weights(spec, plan, rank, model.file, *supported_kernels().back(),
                            *groups[static_cast<size_t>(rank)], team, nullptr);
      EXPECT_EQ(weights.bytes(), plan.ranks[static_cast<size_t>(rank)].weight_bytes);
      for (const TensorPlan& tensor : plan.tensors) {
        const WeightSpec& weight_spec = spec.weights[static_cast<size_t>(tensor.weight)];
        if (weight_spec.in.axis == Axis::One) continue;
        const Weight& weight = weights.get(weight_spec.role, weight_spec.layer);
        const Slice& slice = tensor.slices[static_cast<size_t>(rank)];
        const std::vector<std::byte>& whole = model.blocks.at(weight_spec.name);
        const int64_t stride = row_bytes(weight_spec.dtype, weight_spec.in.size());
        const int64_t block_bytes = info(weight_spec.dtype).block_bytes;
        std::vector<bool>& here = held[weight_spec.name];
        here.resize(whole.size() / static_cast<size_t>(block_bytes));
        const int64_t begin = tensor.by_columns ? row_bytes(weight_spec.dtype, slice.stored_begin) : 0;
        for (int64_t row = 0; row < weight.matrix.rows; ++row) {
          const int64_t at = (row + (tensor.by_columns ? 0 : slice.begin)) * stride + begin;
          ASSERT_EQ(std::memcmp(weight.matrix.data + row * weight.matrix.row_bytes, whole.data() + at,
                                static_cast<size_t>(weight.matrix.row_bytes)),
                    0)
              << weight_spec.name << " rank " << rank << " of " << size << " row " << row;
          const auto first = here.begin() + at / block_bytes;
          std::fill(first, first + weight.matrix.row_bytes / block_bytes, true);
        }
      }
    }
    for (const auto& [name, blocks] : held) {
      EXPECT_EQ(std::count(blocks.begin(), blocks.end(), false), 0) << name << " of " << size << " ranks";
    }
    EXPECT_EQ(held.size(), 8U);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Formats, testing::ValuesIn(dtype_table().begin(), dtype_table().end()),
                         [](const auto& format) { return name_of_test(std::string(format.param.name)); });

// Rows of more than 8 KiB, whose runs are read one by one; and shorter ones that no span of rows ends with.
TEST(WeightsRead, RowsOfAnyLengthGiveTheirRuns) {
  for (const int64_t ffn : {160, 2048, 2112, 5000}) {
    FakeCheckpoint file = fake_llama({.hidden = 96, .heads = 6, .kv_heads = 2, .head_dim = 16, .ffn = ffn});
    std::vector<std::vector<std::byte>> data;
    std::mt19937 random(7);
    for (TensorInfo& tensor : file.list) {
      auto& bytes = data.emplace_back(static_cast<size_t>(tensor.elements) * 4);
      std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
      tensor.parts = {{bytes, 4, 0}};
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
      const std::byte* whole = file.find("blk.1.ffn_down.weight")->parts.at(0).bytes.data();
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

// A gated delta net in GGUF, whose value heads stand in tiles: [tile, key head]. `dtype`: of the matrices.
FakeCheckpoint fake_delta(int64_t key_heads, int64_t tiles, int64_t head_dim, DType dtype) {
  constexpr int64_t kHidden = 256, kKeyDim = 32, kTaps = 4;
  FakeCheckpoint file = fake_llama({.hidden = kHidden, .heads = 2, .head_dim = 128, .ffn = 512, .layers = 1});
  file.meta = Metadata("fake.gguf");
  const int64_t heads = key_heads * tiles, values = heads * head_dim, keys = key_heads * kKeyDim;
  file.set("general.architecture", std::string_view("qwen35"));
  for (const auto& [key, value] : std::map<std::string, int64_t>{{"block_count", 1},
                                                                 {"embedding_length", kHidden},
                                                                 {"context_length", 64},
                                                                 {"attention.head_count", 2},
                                                                 {"feed_forward_length", 512},
                                                                 {"ssm.time_step_rank", heads},
                                                                 {"ssm.group_count", key_heads},
                                                                 {"ssm.state_size", kKeyDim},
                                                                 {"ssm.inner_size", values},
                                                                 {"ssm.conv_kernel", kTaps},
                                                                 {"full_attention_interval", 4}}) {
    file.set("qwen35." + key, value);
  }
  file.set("qwen35.attention.layer_norm_rms_epsilon", 1e-6);
  std::erase_if(file.list, [](const TensorInfo& tensor) { return tensor.name.starts_with("blk.0.attn"); });
  for (TensorInfo& tensor : file.list) {
    if (tensor.name == "blk.0.ffn_norm.weight") tensor.name = "blk.0.post_attention_norm.weight";
  }
  file.add("blk.0.attn_norm.weight", DType::F32, {kHidden});
  file.add("blk.0.attn_qkv.weight", dtype, {2 * keys + values, kHidden});
  file.add("blk.0.ssm_conv1d.weight", DType::F32, {2 * keys + values, kTaps});
  file.add("blk.0.attn_gate.weight", dtype, {values, kHidden});
  file.add("blk.0.ssm_beta.weight", DType::F32, {heads, kHidden});
  file.add("blk.0.ssm_alpha.weight", DType::F32, {heads, kHidden});
  file.add("blk.0.ssm_a", DType::F32, {heads});
  file.add("blk.0.ssm_dt.bias", DType::F32, {heads});
  file.add("blk.0.ssm_norm.weight", DType::F32, {head_dim});
  file.add("blk.0.ssm_out.weight", dtype, {kHidden, values});
  return file;
}

struct TiledCase {
  int64_t key_heads, tiles, head_dim;
  DType dtype;
  int64_t run;  // key heads that take turns: together they are whole blocks of the output projection
};

// Each value head comes from its place in the file, with the key head it reads, whatever the ranks, formats and lengths
// of rows: those of F32 are longer than what is read at once.
TEST(WeightsRead, ValueHeadsOutOfTiles) {
  for (const TiledCase& c :
       {TiledCase{4, 3, 256, DType::F32, 1}, TiledCase{3, 2, 32, DType::Q8_0, 1}, TiledCase{4, 2, 128, DType::Q4_K, 2},
        TiledCase{6, 3, 128, DType::Q4_K, 2}, TiledCase{4, 2, 64, DType::Q4_K, 4}, TiledCase{3, 2, 128, DType::Q4_K, 3},
        TiledCase{4, 1, 64, DType::Q4_K, 4}}) {
    // Small whole numbers, which tell rows and columns apart.
    FakeCheckpoint file = fake_delta(c.key_heads, c.tiles, c.head_dim, c.dtype);
    std::deque<std::vector<std::byte>> data;
    std::mt19937 random(7);
    for (TensorInfo& tensor : file.list) {
      auto& bytes = data.emplace_back(static_cast<size_t>(row_bytes(tensor.dtype, tensor.elements)));
      std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random() % 16); });
      tensor.parts = {{bytes, info(tensor.dtype).block_bytes, 0}};
    }
    const ModelSpec spec = read_model(file);
    // [value head of the network] -> that of the file
    std::vector<int64_t> stored;
    for (int64_t first = 0; first < c.key_heads; first += c.run) {
      for (int64_t tile = 0; tile < c.tiles; ++tile) {
        for (int64_t key = first; key < first + c.run; ++key) {
          EXPECT_EQ(key_head_of(spec.layers[0], static_cast<int64_t>(stored.size())), key);
          stored.push_back(tile * c.key_heads + key);
        }
      }
    }
    for (const int size : {1, 2, 3}) {
      const ShardPlan plan = make_plan(spec, {.tp_size = size});
      auto groups = make_local_group(size, {});
      for (int rank = 0; rank < size; ++rank) {
        Team team({rank % 2 + 1, {}, {}});
        const Weights weights(spec, plan, rank, file, *supported_kernels().back(), *groups[static_cast<size_t>(rank)],
                              team, nullptr);
        for (const Role role : {Role::DeltaV, Role::DeltaGate, Role::DeltaBeta, Role::DeltaOutput}) {
          const Weight& weight = weights.get(role, 0);
          const WeightSpec& what = *spec.find(role, 0);
          const Slice& slice = weight.plan->slices[static_cast<size_t>(rank)];
          const std::vector<float> whole = whole_of(*file.find(what.name));
          const int64_t cols = what.in.size(), unit = role == Role::DeltaBeta ? 1 : c.head_dim;
          const auto place = [&](int64_t element) {
            return stored[static_cast<size_t>(element / unit)] * unit + element % unit;
          };
          for (int64_t row = 0; row < weight.matrix.rows; ++row) {
            std::vector<float> expected;
            for (int64_t col = 0; col < weight.matrix.cols; ++col) {
              const int64_t at = role == Role::DeltaOutput ? row * cols + place(slice.begin + col)
                                                           : (what.first_row + place(slice.begin + row)) * cols + col;
              expected.push_back(whole[static_cast<size_t>(at)]);
            }
            ASSERT_TRUE(row_of(weight, row) == expected)
                << what.name << " row " << row << " of rank " << rank << " of " << size;
          }
        }
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

INSTANTIATE_TEST_SUITE_P(TinyModels, Slices, testing::ValuesIn(tiny_model_names()),
                         [](const auto& name) { return name_of_test(name.param); });

}  // namespace
}  // namespace lockstep
