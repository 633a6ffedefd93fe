// The matrix product: right, by a sum in double precision; and the same bits for every way of dividing the work.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/kernels_fixture.h"

namespace lockstep {
namespace {

// A product of random numbers, cut into leaves, and the ways to compute parts of it. Buffers have exactly the sizes the
// door promises, so that a sanitizer sees what lies outside.
struct Product {
  const Kernels& kernels;
  DType dtype;
  int64_t rows, n, cols, leaf_cols;
  int64_t lead;  // stored elements before the matrix's first column
  int64_t stride;
  std::vector<std::byte> weights;
  std::vector<float> x;

  Product(const Kernels& table, std::mt19937& rng, DType type, int64_t rows_, int64_t n_, int64_t cols_, int64_t leaf,
          int64_t lead_ = 0)
      : kernels(table), dtype(type), rows(rows_), n(n_), cols(cols_), leaf_cols(leaf), lead(lead_) {
    const int64_t block = info(dtype).block_elements;
    const int64_t blocks = (lead + cols + block - 1) / block;
    stride = blocks * info(dtype).block_bytes;
    weights = random_blocks(rng, dtype, n * blocks);
    x = random_floats(rng, rows * cols);
  }

  int64_t leaves() const { return (cols + leaf_cols - 1) / leaf_cols; }
  Range all() const { return {0, leaves()}; }

  struct Part {
    int64_t row_begin, row_end, n_begin, n_end;
    Range run;
    bool every_leaf = false;
  };
  Part whole() const { return {0, rows, 0, n, all()}; }

  // [nodes, rows of the part, columns of the part]
  std::vector<float> compute(const Part& part) const {
    const int64_t block = info(dtype).block_elements;
    const int64_t begin = std::min(part.run.begin * leaf_cols, cols);
    const int64_t first = lead + begin;
    const int64_t end = std::min(part.run.end * leaf_cols, cols);
    const int64_t part_rows = part.row_end - part.row_begin;
    const JoinProgram join = join_leaves(leaves(), part.run, part.every_leaf);
    // A rank holds only its own blocks and columns.
    const int64_t blocks = end == begin ? 0 : (lead + end + block - 1) / block - first / block;
    const int64_t slice_stride = blocks * info(dtype).block_bytes;
    std::vector<std::byte> slice;
    std::vector<float> slice_x;
    for (int64_t i = 0; i < n; ++i) {
      const auto* row = weights.data() + i * stride + first / block * info(dtype).block_bytes;
      slice.insert(slice.end(), row, row + slice_stride);
    }
    for (int64_t row = part.row_begin; row < part.row_end; ++row) {
      slice_x.insert(slice_x.end(), x.begin() + row * cols + begin, x.begin() + row * cols + end);
    }
    const float untouched = -12345;
    std::vector<float> out(static_cast<size_t>(join.depth * part_rows * n), untouched);
    std::vector<float> scratch(static_cast<size_t>(kMatmulScratch));
    MatmulArgs args;
    args.x = slice_x.data();
    args.rows = part_rows;
    args.ldx = end - begin;
    args.w = {dtype, slice.data(), n, end - begin, slice_stride, first % block};
    args.leaves = {leaf_cols, &join};
    args.n_begin = part.n_begin;
    args.n_end = part.n_end;
    args.out = out.data();
    args.ldo = n;
    args.plane = part_rows * n;
    args.scratch = scratch.data();
    kernels.matmul(args);
    std::vector<float> result;
    for (int64_t i = 0; i < join.depth * part_rows; ++i) {
      for (int64_t column = 0; column < n; ++column) {
        const float value = out[i * n + column];
        if (column < part.n_begin || column >= part.n_end) {
          EXPECT_EQ(value, untouched) << "column " << column;
        } else if (i < join.results * part_rows) {
          result.push_back(value);
        }
      }
    }
    return result;
  }
};

// One node of the tree over `leaves`, from the sums of its leaves [leaf, count]: the definition, written by recursion.
std::vector<float> tree_node(const std::vector<std::vector<float>>& leaf_sums, int64_t begin, int64_t end) {
  if (end - begin == 1) return leaf_sums[begin];
  int64_t half = 1;
  while (2 * half < end - begin) half *= 2;
  auto sum = tree_node(leaf_sums, begin, begin + half);
  const auto right = tree_node(leaf_sums, begin + half, end);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  return sum;
}

// One format of every way to store codes: the groups and scale types of MLX's affine formats differ in nothing that a
// product could see.
std::vector<DTypeInfo> distinct_formats() {
  std::vector<DTypeInfo> formats;
  for (const DTypeInfo& format : dtype_table()) {
    const bool affine = format.mlx && format.mlx->mode == MlxMode::Affine;
    if (!affine || (format.block_elements == 64 && format.mlx->scales == DType::BF16)) formats.push_back(format);
  }
  return formats;
}

using Matmul = EveryIsa;

TEST_P(Matmul, IsNearTheSumInDoublePrecision) {
  std::mt19937 rng(1);
  for (const DTypeInfo& format : dtype_table()) {
    for (const auto& [rows, n, cols, leaf] : std::vector<std::array<int64_t, 4>>{
             {1, 5, 64, 64}, {3, 17, 100, 100}, {9, 16, 576, 64}, {33, 21, 1300, 1300}, {2, 3, 1536, 608}}) {
      const Product product(kernels(), rng, format.dtype, rows, n, cols, leaf);
      const auto out = product.compute(product.whole());
      // Additions one product goes through: a chain of a chunk, joining at most 16 chains, chunks, leaves; and its own
      // rounding.
      const double roundings =
          512.0 / 8 + 4 + static_cast<double>(cols) / 512 + static_cast<double>(product.leaves()) + 2;
      std::vector<float> w(static_cast<size_t>(cols));
      for (int64_t column = 0; column < n; ++column) {
        supported_kernels().back()->dequantize(format.dtype, product.weights.data() + column * product.stride, 0, cols,
                                               w.data());
        for (int64_t row = 0; row < rows; ++row) {
          double sum = 0;
          double magnitude = 0;
          for (int64_t k = 0; k < cols; ++k) {
            const double term = double{product.x[row * cols + k]} * double{w[k]};
            sum += term;
            magnitude += std::abs(term);
          }
          ASSERT_NEAR(out[row * n + column], sum, magnitude * roundings * 0x1p-24)
              << format.name << " row " << row << " column " << column;
        }
      }
    }
  }
}

TEST_P(Matmul, RowsAndColumnsDoNotChangeBits) {
  std::mt19937 rng(2);
  for (const DTypeInfo& format : distinct_formats()) {
    for (const int64_t leaf : {8, 32, 64, 100}) {
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 33}) {
        const int64_t n = 1 + static_cast<int64_t>(rng() % 40);
        const int64_t cols = 1 + static_cast<int64_t>(rng() % 300);
        const Product product(kernels(), rng, format.dtype, rows, n, cols, leaf);
        SCOPED_TRACE(testing::Message() << format.name << " " << rows << " x " << n << " x " << cols << " leaf "
                                        << leaf);
        const auto whole = product.compute(product.whole());
        ASSERT_EQ(static_cast<int64_t>(whole.size()), rows * n);
        for (int64_t row = 0; row < rows; ++row) {
          auto part = product.whole();
          part.row_begin = row;
          part.row_end = row + 1;
          ASSERT_EQ(bits_of(product.compute(part)), bits_of(whole.data() + row * n, n)) << "row " << row;
        }
        for (int64_t at = 8; at < n; at += 8) {  // where a thread's share ends
          auto left = product.whole();
          auto right = product.whole();
          left.n_end = right.n_begin = at;
          const auto a = product.compute(left);
          const auto b = product.compute(right);
          for (int64_t row = 0; row < rows; ++row) {
            ASSERT_EQ(bits_of(a.data() + row * at, at), bits_of(whole.data() + row * n, at)) << "split at " << at;
            ASSERT_EQ(bits_of(b.data() + row * (n - at), n - at), bits_of(whole.data() + row * n + at, n - at))
                << "split at " << at;
          }
        }
      }
    }
  }
}

TEST_P(Matmul, WideLeavesDoNotChangeBits) {
  std::mt19937 rng(3);
  for (const DTypeInfo& format : distinct_formats()) {
    for (const int64_t cols : {511, 512, 513, 1024, 1500}) {
      const Product product(kernels(), rng, format.dtype, 20, 7, cols, cols);
      const auto whole = product.compute(product.whole());
      for (int64_t row = 0; row < product.rows; ++row) {
        auto part = product.whole();
        part.row_begin = row;
        part.row_end = row + 1;
        ASSERT_EQ(bits_of(product.compute(part)), bits_of(whole.data() + row * product.n, product.n))
            << format.name << " cols " << cols << " row " << row;
      }
    }
  }
}

TEST_P(Matmul, RunsOfLeavesGiveTheNodesOfTheTree) {
  std::mt19937 rng(4);
  for (const DTypeInfo& format : dtype_table()) {
    for (const int64_t leaf : {8, 32, 64, 100}) {
      for (const int64_t rows : {1, 3, 9}) {
        const int64_t cols = 1 + static_cast<int64_t>(rng() % (11 * leaf));
        const Product product(kernels(), rng, format.dtype, rows, 9, cols, leaf);
        SCOPED_TRACE(testing::Message() << format.name << " " << rows << " x 9 x " << cols << " leaf " << leaf);
        const int64_t leaves = product.leaves();
        std::vector<std::vector<float>> leaf_sums;
        for (int64_t i = 0; i < leaves; ++i) {
          auto part = product.whole();
          part.run = {i, i + 1};
          leaf_sums.push_back(product.compute(part));
        }
        ASSERT_EQ(bits_of(product.compute(product.whole())), bits_of(tree_node(leaf_sums, 0, leaves)));
        for (int trial = 0; trial < 6; ++trial) {
          auto part = product.whole();
          part.run.begin = static_cast<int64_t>(rng() % (leaves + 1));
          part.run.end = part.run.begin + static_cast<int64_t>(rng() % (leaves - part.run.begin + 1));
          part.every_leaf = trial == 0;
          std::vector<float> expected;
          for (const Range& node : nodes_of_run(leaves, part.run, part.every_leaf)) {
            const auto sums = tree_node(leaf_sums, node.begin, node.end);
            expected.insert(expected.end(), sums.begin(), sums.end());
          }
          ASSERT_EQ(bits_of(product.compute(part)), bits_of(expected)) << part.run.begin << " to " << part.run.end;
        }
      }
    }
  }
}

// The same columns in the middle of a longer stored row, as a rank that shares a block with its neighbour holds them.
TEST_P(Matmul, LeadDoesNotChangeBits) {
  std::mt19937 rng(5);
  for (const DTypeInfo& format : dtype_table()) {
    for (const int64_t lead : {1, 8, 16, 31, 64, 100, 255}) {
      if (lead >= format.block_elements) continue;
      for (const int64_t rows : {1, 7}) {
        const Product led(kernels(), rng, format.dtype, rows, 6, 90, 40, lead);
        Product floats(kernels(), rng, DType::F32, rows, 6, 90, 40);
        floats.x = led.x;
        for (int64_t i = 0; i < led.n; ++i) {
          kernels().dequantize(led.dtype, led.weights.data() + i * led.stride, lead, led.cols,
                               reinterpret_cast<float*>(floats.weights.data() + i * floats.stride));
        }
        EXPECT_EQ(bits_of(led.compute(led.whole())), bits_of(floats.compute(floats.whole())))
            << format.name << " lead " << lead;
      }
    }
  }
}

TEST_P(Matmul, NothingToSumWritesNothing) {
  std::mt19937 rng(6);
  const Product product(kernels(), rng, DType::Q4_0, 3, 8, 64, 32);
  auto part = product.whole();
  part.run = {1, 1};
  EXPECT_TRUE(product.compute(part).empty());
  part = product.whole();
  part.n_begin = part.n_end = 4;
  EXPECT_TRUE(product.compute(part).empty());
}

INSTANTIATE_TEST_SUITE_P(Isa, Matmul, testing::ValuesIn(supported_kernels()), isa_name);

}  // namespace
}  // namespace lockstep
