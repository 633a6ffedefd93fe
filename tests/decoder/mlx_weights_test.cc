// Matrices that MLX quantised, loaded in slices: bit-equal to those elements of what mlx.core.dequantize gives,
// whichever way and by how many they are divided (tests/oracle/make_safetensors_fixtures.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/checked.h"
#include "decoder/weights.h"

namespace lockstep {
namespace {

constexpr const char* kFolder = LOCKSTEP_FIXTURES "/safetensors/";
constexpr int64_t kUnit = 32;     // columns that stay together: less than most groups
constexpr int64_t kFirstRow = 2;  // of the weight that is a part of its tensor

std::vector<float> mlx_floats() {
  std::ifstream file(std::string(kFolder) + "mlx.floats", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

// Every matrix three times, as layers of a model: its rows divided, its columns, and the rows from kFirstRow on.
ModelSpec spec_of(const std::vector<const TensorInfo*>& matrices) {
  ModelSpec spec;
  spec.layers.resize(matrices.size());
  for (size_t i = 0; i < matrices.size(); ++i) {
    const TensorInfo& matrix = *matrices[i];
    const auto add = [&](Role role, int64_t first_row) {
      WeightSpec weight;
      weight.role = role;
      weight.layer = static_cast<int64_t>(i);
      weight.name = matrix.name;
      weight.first_row = first_row;
      weight.dtype = matrix.dtype;
      weight.out = {Axis::Ffn, matrix.shape[0] - first_row, 1};
      weight.in = {Axis::Model, matrix.shape[1], 1};
      spec.weights.push_back(weight);
    };
    add(Role::FfnGate, 0);
    add(Role::FfnDown, 0);
    add(Role::FfnUp, kFirstRow);
  }
  return spec;
}

ShardPlan plan_of(const ModelSpec& spec, int size) {
  ShardPlan plan;
  for (const WeightSpec& weight : spec.weights) {
    TensorPlan tensor;
    tensor.weight = static_cast<int64_t>(plan.tensors.size());
    const bool by_columns = weight.role == Role::FfnDown;
    tensor.strategy = by_columns ? Strategy::RowParallel : Strategy::ColumnParallel;
    tensor.by_columns = by_columns;
    const int64_t unit = by_columns ? kUnit : 1;
    const int64_t block = by_columns ? info(weight.dtype).block_elements : 1;
    const int64_t units = (by_columns ? weight.in : weight.out).size() / unit;
    for (int rank = 0; rank < size; ++rank) {
      Slice slice;
      slice.begin = units * rank / size * unit;
      slice.end = units * (rank + 1) / size * unit;
      slice.stored_begin = slice.begin / block * block;
      slice.stored_end = round_up(slice.end, block);
      tensor.slices.push_back(slice);
    }
    plan.tensors.push_back(tensor);
  }
  return plan;
}

TEST(MlxWeights, SlicesAreThoseOfTheWhole) {
  const auto checkpoint = Checkpoint::open(std::string(kFolder) + "mlx");
  const std::vector<float> floats = mlx_floats();
  std::vector<const TensorInfo*> matrices;
  std::set<DType> formats;
  int64_t elements = 0;
  for (const TensorInfo& tensor : checkpoint->tensors()) {
    if (!info(tensor.dtype).mlx) continue;
    matrices.push_back(&tensor);
    formats.insert(tensor.dtype);
    elements += tensor.elements;
  }
  ASSERT_EQ(elements, static_cast<int64_t>(floats.size()));
  const auto table = dtype_table();
  ASSERT_EQ(std::count_if(table.begin(), table.end(), [](const DTypeInfo& format) { return format.mlx.has_value(); }),
            static_cast<int64_t>(formats.size()));

  const Kernels& kernels = *supported_kernels().back();
  const ModelSpec spec = spec_of(matrices);
  for (int size = 1; size <= 8; ++size) {
    const ShardPlan plan = plan_of(spec, size);
    auto groups = make_local_group(size, {});
    for (int rank = 0; rank < size; ++rank) {
      Team team({rank % 2 + 1, {}, {}});
      const Weights weights(spec, plan, rank, *checkpoint, kernels, *groups[static_cast<size_t>(rank)], team, nullptr);
      const float* whole = floats.data();
      for (size_t i = 0; i < spec.weights.size(); ++i) {
        const WeightSpec& weight_spec = spec.weights[i];
        const Slice& slice = plan.tensors[i].slices[static_cast<size_t>(rank)];
        const WeightMatrix& matrix = weights.get(weight_spec.role, weight_spec.layer).matrix;
        const bool by_columns = plan.tensors[i].by_columns;
        ASSERT_EQ(by_columns ? matrix.cols : matrix.rows, slice.end - slice.begin);
        for (int64_t row = 0; row < matrix.rows; ++row) {
          std::vector<float> values(static_cast<size_t>(matrix.cols));
          kernels.dequantize(matrix.dtype, matrix.data + row * matrix.row_bytes, matrix.lead, matrix.cols,
                             values.data());
          const int64_t stored_row = weight_spec.first_row + row + (by_columns ? 0 : slice.begin);
          const int64_t first = stored_row * weight_spec.in.size() + (by_columns ? slice.begin : 0);
          ASSERT_EQ(std::memcmp(values.data(), whole + first, values.size() * sizeof(float)), 0)
              << info(matrix.dtype).name << ", rank " << rank << " of " << size << ", row " << row
              << (by_columns ? " by columns" : " by rows");
        }
        if (i % 3 == 2) whole += matrices[i / 3]->elements;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
