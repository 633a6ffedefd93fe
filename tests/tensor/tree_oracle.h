// The reduction tree straight from its recursive definition, without stacks or programs: what tests compare with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace lockstep::test {

// The sum of node (level, index) of the tree over `leaves`.
inline float node_value(std::span<const float> leaves, int level, int64_t index) {
  if (level == 0) return leaves[static_cast<size_t>(index)];
  const float left = node_value(leaves, level - 1, 2 * index);
  const int64_t right_begin = (2 * index + 1) << (level - 1);
  if (right_begin >= static_cast<int64_t>(leaves.size())) return left;
  return left + node_value(leaves, level - 1, 2 * index + 1);
}

// The level of the smallest node that covers exactly [begin, end), or -1 when no node of the tree does.
inline int level_of(int64_t leaves, int64_t begin, int64_t end) {
  for (int level = 0; level < 62; ++level) {
    const int64_t width = int64_t{1} << level;
    if (begin % width == 0 && std::min(leaves, begin + width) == end) return level;
  }
  return -1;
}

inline float node_value(std::span<const float> leaves, const Range& node) {
  const int level = level_of(static_cast<int64_t>(leaves.size()), node.begin, node.end);
  return node_value(leaves, level, node.begin >> level);
}

inline float root_value(std::span<const float> leaves) {
  return node_value(leaves, {0, static_cast<int64_t>(leaves.size())});
}

// [0, leaves) cut into `ranks` runs at random places; some runs are empty.
inline std::vector<Range> random_runs(int64_t leaves, int ranks, std::mt19937& random) {
  std::vector<int64_t> cuts{0, leaves};
  std::uniform_int_distribution<int64_t> place(0, leaves);
  for (int i = 1; i < ranks; ++i) cuts.push_back(place(random));
  std::sort(cuts.begin(), cuts.end());
  std::vector<Range> runs;
  for (int i = 0; i < ranks; ++i) runs.push_back({cuts[static_cast<size_t>(i)], cuts[static_cast<size_t>(i) + 1]});
  return runs;
}

// Numbers of very different sizes, so that another order of additions gives other bits.
inline std::vector<float> unruly_floats(size_t count, std::mt19937& random) {
  std::normal_distribution<float> number;
  std::uniform_int_distribution<int> exponent(-12, 12);
  std::vector<float> values(count);
  for (float& value : values) value = std::ldexp(number(random), exponent(random));
  return values;
}

}  // namespace lockstep::test
