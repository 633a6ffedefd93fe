// Nodes of runs and the stack programs that join them.
#include "tensor/reduction_tree.h"

#include <algorithm>
#include <cassert>

namespace lockstep {
namespace {

// True when `left` and `right`, which touch, are the two halves of one node of the tree over `leaves`.
bool are_halves(int64_t leaves, const Range& left, const Range& right) {
  // The left half is always full: its size is a power of two and its start a multiple of twice that.
  const int64_t width = left.end - left.begin;
  if ((width & (width - 1)) != 0 || left.begin % (2 * width) != 0) return false;
  return right.end == std::min(leaves, left.begin + 2 * width);
}

// Joins inputs that touch, left to right, as far as they are halves of one node (or, with every_leaf, not at all).
struct Joined {
  JoinProgram program;
  std::vector<Range> results;
};

Joined join(int64_t leaves, std::span<const Range> inputs, bool every_leaf) {
  Joined joined;
  auto& [program, stack] = joined;
  for (const Range& input : inputs) {
    stack.push_back(input);
    program.depth = std::max(program.depth, static_cast<int64_t>(stack.size()));
    uint8_t merges = 0;
    while (!every_leaf && stack.size() > 1 && are_halves(leaves, stack[stack.size() - 2], stack.back())) {
      stack[stack.size() - 2].end = stack.back().end;
      stack.pop_back();
      ++merges;
    }
    program.merges.push_back(merges);
  }
  program.results = static_cast<int64_t>(stack.size());
  return joined;
}

Joined join_run(int64_t leaves, Range run, bool every_leaf) {
  assert(0 <= run.begin && run.begin <= run.end && run.end <= leaves);
  std::vector<Range> inputs;
  for (int64_t leaf = run.begin; leaf < run.end; ++leaf) inputs.push_back({leaf, leaf + 1});
  return join(leaves, inputs, every_leaf);
}

}  // namespace

std::vector<Range> nodes_of_run(int64_t leaves, Range run, bool every_leaf) {
  return join_run(leaves, run, every_leaf).results;
}

JoinProgram join_leaves(int64_t leaves, Range run, bool every_leaf) {
  return join_run(leaves, run, every_leaf).program;
}

JoinProgram join_nodes(int64_t leaves, std::span<const Range> nodes) {
  JoinProgram program = join(leaves, nodes, false).program;
  assert(program.results <= 1);
  return program;
}

TreeLayout tree_layout(int64_t leaves, std::span<const Range> runs, bool every_leaf) {
  TreeLayout layout;
  std::vector<Range> all;
  for (const Range& run : runs) {
    const auto nodes = nodes_of_run(leaves, run, every_leaf);
    layout.nodes_of_rank.push_back(static_cast<int64_t>(nodes.size()));
    all.insert(all.end(), nodes.begin(), nodes.end());
  }
  assert(!all.empty() && all.front().begin == 0 && all.back().end == leaves);
  layout.join = join_nodes(leaves, all);
  return layout;
}

TreeLayout one_leaf_per_rank(int ranks) {
  std::vector<Range> runs;
  for (int rank = 0; rank < ranks; ++rank) runs.push_back({rank, rank + 1});
  return tree_layout(ranks, runs);
}

}  // namespace lockstep
