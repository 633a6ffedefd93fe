// Tensor parallelism in one file: a linear layer y = x W' divided over ranks in the two ways lockstep uses.
//
// - Column-parallel: each rank holds some of the outputs (rows of W) and computes them from the whole input; an
//   all-gather puts the outputs side by side.
// - Row-parallel: each rank holds some of the inputs (columns of W) and computes a part of every output's sum; an
//   all-reduce adds the parts.
//
// Both results are compared, bit for bit, with the layer computed by one rank alone. Column-parallel needs no care:
// every output is computed by one rank, in the same order as before. Row-parallel adds floats in several places, and
// the order matters: (a+b)+c is not a+(b+c). So it is fixed by a tree over "leaves" of the input dimension, whoever
// owns them. The program exits with status 1 when a bit differs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/comm.h"
#include "tensor/tensor.h"

namespace {

using lockstep::Group;
using lockstep::JoinProgram;
using lockstep::Range;
using lockstep::TreeLayout;

constexpr int64_t kInputs = 1024;
constexpr int64_t kOutputs = 2048;
constexpr int64_t kBatch = 32;

// The input dimension is cut into 16 leaves of 64. The cut belongs to the layer; it does not depend on the ranks.
constexpr int64_t kLeafWidth = 64;
constexpr int64_t kLeaves = kInputs / kLeafWidth;

// Row-major: element (row, column) is values[row * columns + column].
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;

  Matrix(int64_t rows, int64_t columns) : rows(rows), columns(columns), values(static_cast<size_t>(rows * columns)) {}
  float* row(int64_t r) { return values.data() + r * columns; }
  const float* row(int64_t r) const { return values.data() + r * columns; }
  std::string shape() const { return fmt::format("[{}, {}]", rows, columns); }
  bool operator==(const Matrix&) const = default;
};

struct Layer {
  Matrix input{kBatch, kInputs};
  Matrix weight{kOutputs, kInputs};  // one row an output
};

Layer random_layer() {
  Layer layer;
  std::mt19937 random(20);
  std::normal_distribution<float> number;
  for (float& value : layer.input.values) value = number(random);
  for (float& value : layer.weight.values) value = number(random);
  return layer;
}

// The run of [0, units) that belongs to `rank`: as even as it gets, for any number of ranks.
Range run_of(int64_t units, int rank, int ranks) {
  return {units * rank / ranks, units * (rank + 1) / ranks};
}

// The columns [first, first + count) of every row: what a row-parallel rank reads of the weight.
Matrix columns_of(const Matrix& whole, int64_t first, int64_t count) {
  Matrix slice(whole.rows, count);
  for (int64_t r = 0; r < whole.rows; ++r) std::copy_n(whole.row(r) + first, count, slice.row(r));
  return slice;
}

Matrix rows_of(const Matrix& whole, int64_t first, int64_t count) {
  Matrix slice(count, whole.columns);
  std::copy_n(whole.row(first), count * whole.columns, slice.values.data());
  return slice;
}

// The product of `input` and `weight` over the leaves they hold, as far as those leaves can be joined: one matrix
// [batch, outputs] for each node of the run, one after the other. A whole layer has one node, the root.
std::vector<float> multiply(const Matrix& input, const Matrix& weight, const JoinProgram& join) {
  const int64_t leaves = static_cast<int64_t>(join.merges.size());
  const int64_t plane = input.rows * weight.rows;
  std::vector<float> nodes(static_cast<size_t>(join.results * plane));
  std::vector<float> stack(static_cast<size_t>(join.depth));
  for (int64_t r = 0; r < input.rows; ++r) {
    for (int64_t n = 0; n < weight.rows; ++n) {
      size_t top = 0;
      for (int64_t leaf = 0; leaf < leaves; ++leaf) {
        float sum = 0;  // a leaf is summed from left to right
        for (int64_t k = leaf * kLeafWidth; k < (leaf + 1) * kLeafWidth; ++k) sum += input.row(r)[k] * weight.row(n)[k];
        stack[top++] = sum;
        for (int merge = 0; merge < join.merges[static_cast<size_t>(leaf)]; ++merge, --top)
          stack[top - 2] += stack[top - 1];
      }
      for (int64_t node = 0; node < join.results; ++node) {
        nodes[static_cast<size_t>(node * plane + r * weight.rows + n)] = stack[static_cast<size_t>(node)];
      }
    }
  }
  return nodes;
}

// The undivided layer: what both divisions must reproduce.
Matrix whole_layer(const Layer& layer) {
  Matrix output(kBatch, kOutputs);
  output.values = multiply(layer.input, layer.weight, lockstep::join_leaves(kLeaves, {0, kLeaves}));
  return output;
}

// The largest difference between `output` and sums in double precision, which know nothing of leaves and trees.
double error_of(const Layer& layer, const Matrix& output) {
  double largest = 0;
  for (int64_t r = 0; r < kBatch; ++r) {
    for (int64_t n = 0; n < kOutputs; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < kInputs; ++k) sum += static_cast<double>(layer.input.row(r)[k]) * layer.weight.row(n)[k];
      largest = std::max(largest, std::abs(sum - output.row(r)[n]));
    }
  }
  return largest;
}

Matrix column_parallel(const Layer& layer, Group& group, std::string& report) {
  // Step 1: this rank's slice of the weight is a run of its rows, that is, of outputs.
  const Range outputs = run_of(kOutputs, group.rank(), group.size());
  const Matrix slice = rows_of(layer.weight, outputs.begin, outputs.size());

  // Step 2: the whole input times the slice gives this rank's columns of the output.
  Matrix mine(kBatch, outputs.size());
  mine.values = multiply(layer.input, slice, lockstep::join_leaves(kLeaves, {0, kLeaves}));
  report = fmt::format("  rank {}: weight slice {}, input {}, output {}\n", group.rank(), slice.shape(),
                       layer.input.shape(), mine.shape());

  // Step 3: everybody receives everybody's columns, rank after rank. Lengths may differ.
  std::vector<size_t> counts;
  for (int r = 0; r < group.size(); ++r) {
    counts.push_back(static_cast<size_t>(kBatch * run_of(kOutputs, r, group.size()).size()));
  }
  std::vector<float> gathered(static_cast<size_t>(kBatch * kOutputs));
  group.all_gather(mine.values, counts, gathered);

  // Step 4: they arrive as one block a rank, [batch, columns of the rank]; put the columns side by side.
  Matrix output(kBatch, kOutputs);
  const float* block = gathered.data();
  for (int r = 0; r < group.size(); ++r) {
    const Range columns = run_of(kOutputs, r, group.size());
    for (int64_t b = 0; b < kBatch; ++b, block += columns.size()) {
      std::copy_n(block, columns.size(), output.row(b) + columns.begin);
    }
  }
  return output;
}

Matrix row_parallel(const Layer& layer, Group& group, std::string& report) {
  // Step 1: the input dimension is divided at leaves, so that every leaf is summed by one rank.
  std::vector<Range> runs;
  for (int r = 0; r < group.size(); ++r) runs.push_back(run_of(kLeaves, r, group.size()));
  const Range mine = runs[static_cast<size_t>(group.rank())];

  // Step 2: the slices of the weight and of the input hold the same columns.
  const Matrix weight = columns_of(layer.weight, mine.begin * kLeafWidth, mine.size() * kLeafWidth);
  const Matrix input = columns_of(layer.input, mine.begin * kLeafWidth, mine.size() * kLeafWidth);

  // Step 3: partial sums of every output. Leaves are joined as far as the tree joins them inside the run: a power of
  // two of aligned leaves becomes one node; N = 3 leaves two on some ranks.
  const std::vector<float> nodes = multiply(input, weight, lockstep::join_leaves(kLeaves, mine));

  // Step 4: the all-reduce finishes the tree in the same order on every rank. `layout` says who contributes which
  // nodes.
  const TreeLayout layout = lockstep::tree_layout(kLeaves, runs);
  Matrix output(kBatch, kOutputs);
  group.all_reduce(layout, nodes, output.values);
  report =
      fmt::format("  rank {}: weight slice {}, input slice {}, partial sums {} x {}\n", group.rank(), weight.shape(),
                  input.shape(), layout.nodes_of_rank[static_cast<size_t>(group.rank())], output.shape());
  return output;
}

using DividedLayer = std::function<Matrix(const Layer&, Group&, std::string&)>;

// Runs the layer on `ranks` threads, one rank each, and compares what every rank ends up with.
bool run(const char* title, int ranks, const Layer& layer, const Matrix& expected, const DividedLayer& divided) {
  // A rank that makes no progress for two seconds counts as stalled. Long work would call Group::tick(); this program
  // does not, and allows more time instead.
  const auto groups = lockstep::make_local_group(ranks, {.stall = std::chrono::minutes(1)});
  std::vector<std::string> reports(groups.size());
  std::vector<char> equal(groups.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < groups.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        equal[r] = divided(layer, *groups[r], reports[r]) == expected;
      } catch (const std::exception& error) {
        groups[r]->abort(error.what());  // or the other ranks would wait for this one
        reports[r] = fmt::format("  rank {}: {}\n", r, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  const bool all_equal = std::all_of(equal.begin(), equal.end(), [](char e) { return e != 0; });
  fmt::print("{}, N = {}\n{}  every rank: output {}, {} the undivided layer\n", title, ranks, fmt::join(reports, ""),
             expected.shape(), all_equal ? "bit for bit equal to" : "DIFFERENT FROM");
  return all_equal;
}

}  // namespace

int main() {
  const Layer layer = random_layer();
  const Matrix expected = whole_layer(layer);
  const double error = error_of(layer, expected);  // outputs are about 32 in size
  fmt::print("linear layer {} -> {}, batch {}; undivided: within {:.1e} of double precision\n", kInputs, kOutputs,
             kBatch, error);
  bool equal = error < 1e-3;
  for (const int ranks : {2, 3}) {
    equal &= run("column-parallel + AllGather", ranks, layer, expected, column_parallel);
    equal &= run("row-parallel + AllReduce", ranks, layer, expected, row_parallel);
  }
  return equal ? 0 : 1;
}
