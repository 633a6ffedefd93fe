// The reduction tree: the one order in which the leaves of a divided sum are joined.
//
// A row-parallel product sums over a dimension that the ranks divide. Floating-point addition is not associative, so
// the order must not depend on the division: the dimension is cut into leaves that depend on the matrix alone, each
// leaf is summed in a fixed order, and leaves are joined by one binary tree whose node (level, index) covers the leaves
// [index * 2^level, (index + 1) * 2^level), cut off at the number of leaves; a node without a right half is its left
// half. A rank owns a run of leaves, joins every maximal subtree inside its run and contributes those nodes; whoever
// holds all nodes finishes the tree. The same idea over GPUs: arXiv 2511.17826.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/range.h"

namespace lockstep {

// How a sequence of inputs (leaves, or nodes) is joined with a stack: push input i, then add the top of the stack to
// the element below it merges[i] times (below = below + top). What remains on the stack, bottom first, is the result.
struct JoinProgram {
  std::vector<uint8_t> merges;  // [inputs]
  int64_t depth = 0;            // the most elements on the stack at once
  int64_t results = 0;          // elements left at the end: nodes of a run, or 1 for a whole tree (0 without inputs)
  bool operator==(const JoinProgram&) const = default;
};

// The maximal subtrees inside the leaves of `run`, left to right, each by the leaves it covers. With `every_leaf`, each
// leaf by itself (used to look inside a sum).
std::vector<Range> nodes_of_run(int64_t leaves, Range run, bool every_leaf = false);

// Joins the leaves of `run` into nodes_of_run(leaves, run, every_leaf).
JoinProgram join_leaves(int64_t leaves, Range run, bool every_leaf = false);

// Joins `nodes`, which cover [0, leaves) without gaps, into the root.
JoinProgram join_nodes(int64_t leaves, std::span<const Range> nodes);

// The nodes of every rank of a group, and how they are joined into the root: what an all-reduce needs to know.
struct TreeLayout {
  std::vector<int64_t> nodes_of_rank;  // [ranks]; their sum is the number of inputs of `join`
  JoinProgram join;                    // over all nodes, rank by rank
  int64_t total_nodes() const { return static_cast<int64_t>(join.merges.size()); }
};

// runs[r] are the leaves of rank r: contiguous, in order, together [0, leaves).
TreeLayout tree_layout(int64_t leaves, std::span<const Range> runs, bool every_leaf = false);

// One leaf a rank: a plain sum over ranks.
TreeLayout one_leaf_per_rank(int ranks);

}  // namespace lockstep
