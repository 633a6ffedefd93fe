// The reduction tree against its recursive definition, for every small tree and every run of it, and for random ones.
#include <gtest/gtest.h>

#include <numeric>

#include "tensor/tensor.h"
#include "tensor/tree_oracle.h"

namespace lockstep {
namespace {

using test::level_of;
using test::node_value;
using test::random_runs;
using test::root_value;
using test::unruly_floats;

// Runs a program as reduction_tree.h words it; returns what remains, bottom first.
std::vector<float> run_program(const JoinProgram& program, std::span<const float> inputs) {
  std::vector<float> stack;
  size_t depth = 0;
  EXPECT_EQ(program.merges.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    stack.push_back(inputs[i]);
    depth = std::max(depth, stack.size());
    for (int merge = 0; merge < program.merges[i]; ++merge) {
      const float top = stack.back();
      stack.pop_back();
      stack.back() = stack.back() + top;
    }
  }
  EXPECT_EQ(static_cast<size_t>(program.depth), depth);
  EXPECT_EQ(static_cast<size_t>(program.results), stack.size());
  return stack;
}

// All nodes inside `run` that have no parent inside it, by trying every cover.
std::vector<Range> maximal_nodes(int64_t leaves, Range run) {
  std::vector<Range> nodes;
  for (int64_t begin = run.begin; begin < run.end;) {
    int64_t end = run.end;
    while (level_of(leaves, begin, end) < 0) --end;
    nodes.push_back({begin, end});
    begin = end;
  }
  return nodes;
}

TEST(ReductionTree, EveryRunOfEveryTreeUpTo40Leaves) {
  std::mt19937 random(1);
  for (int64_t leaves = 1; leaves <= 40; ++leaves) {
    const auto values = unruly_floats(static_cast<size_t>(leaves), random);
    for (int64_t begin = 0; begin <= leaves; ++begin) {
      for (int64_t end = begin; end <= leaves; ++end) {
        const Range run{begin, end};
        const auto nodes = nodes_of_run(leaves, run);
        ASSERT_EQ(nodes, maximal_nodes(leaves, run)) << leaves << ": " << begin << ".." << end;
        const auto sums =
            run_program(join_leaves(leaves, run),
                        std::span(values).subspan(static_cast<size_t>(begin), static_cast<size_t>(run.size())));
        ASSERT_EQ(sums.size(), nodes.size());
        for (size_t i = 0; i < nodes.size(); ++i) ASSERT_EQ(sums[i], node_value(values, nodes[i]));
      }
    }
  }
}

TEST(ReductionTree, NodesOfARunAreFew) {
  std::mt19937 random(2);
  std::uniform_int_distribution<int64_t> any_leaves(1, 5000);
  for (int trial = 0; trial < 1000; ++trial) {
    const int64_t leaves = any_leaves(random);
    for (const Range& run : random_runs(leaves, 3, random)) {
      EXPECT_LE(static_cast<double>(nodes_of_run(leaves, run).size()), 2 * std::ceil(std::log2(leaves + 1)));
    }
  }
  for (int64_t r = 0; r < 4; ++r) EXPECT_EQ(nodes_of_run(32, {8 * r, 8 * r + 8}).size(), 1u);
}

TEST(ReductionTree, EveryDivisionGivesTheSameRoot) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int64_t> any_leaves(1, 200);
  std::uniform_int_distribution<int> any_ranks(1, 12);
  int order_mattered = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const int64_t leaves = any_leaves(random);
    const auto values = unruly_floats(static_cast<size_t>(leaves), random);
    const auto runs = random_runs(leaves, any_ranks(random), random);
    for (const bool every_leaf : {false, true}) {
      const TreeLayout layout = tree_layout(leaves, runs, every_leaf);
      std::vector<float> nodes;
      for (size_t r = 0; r < runs.size(); ++r) {
        const auto first = static_cast<size_t>(runs[r].begin);
        const auto mine = run_program(join_leaves(leaves, runs[r], every_leaf),
                                      std::span(values).subspan(first, static_cast<size_t>(runs[r].size())));
        ASSERT_EQ(mine.size(), static_cast<size_t>(layout.nodes_of_rank[r]));
        nodes.insert(nodes.end(), mine.begin(), mine.end());
      }
      ASSERT_EQ(static_cast<int64_t>(nodes.size()), layout.total_nodes());
      const auto root = run_program(layout.join, nodes);
      ASSERT_EQ(root.size(), 1u);
      ASSERT_EQ(root[0], root_value(values)) << leaves << " leaves, " << runs.size() << " ranks";
    }
    order_mattered += std::accumulate(values.begin(), values.end(), 0.0f) != root_value(values);
  }
  EXPECT_GT(order_mattered, 100);  // or the comparison above would prove nothing
}

TEST(ReductionTree, EveryLeafKeepsLeavesApart) {
  EXPECT_EQ(nodes_of_run(8, {2, 5}, true), (std::vector<Range>{{2, 3}, {3, 4}, {4, 5}}));
  const JoinProgram program = join_leaves(8, {2, 5}, true);
  EXPECT_EQ(program.merges, (std::vector<uint8_t>{0, 0, 0}));
  EXPECT_EQ(program.results, 3);
}

TEST(ReductionTree, OneLeafARankJoinsNeighboursFirst) {
  const TreeLayout layout = one_leaf_per_rank(5);
  EXPECT_EQ(layout.nodes_of_rank, (std::vector<int64_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(layout.join.merges, (std::vector<uint8_t>{0, 1, 0, 2, 1}));  // ((0+1)+(2+3))+4
  EXPECT_EQ(layout.join.results, 1);
}

TEST(ReductionTree, ARankWithoutLeavesHasNoNodes) {
  const std::vector<Range> runs{{0, 0}, {0, 3}, {3, 3}, {3, 4}};
  const TreeLayout layout = tree_layout(4, runs);
  EXPECT_EQ(layout.nodes_of_rank, (std::vector<int64_t>{0, 2, 0, 1}));
  EXPECT_EQ(layout.join.merges, (std::vector<uint8_t>{0, 0, 2}));
}

}  // namespace
}  // namespace lockstep
