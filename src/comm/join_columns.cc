// The stack program of reduction_tree.h, run over blocks of columns.
#include "comm/join_columns.h"

#include <algorithm>
#include <cassert>

namespace lockstep {

ColumnJoiner::ColumnJoiner() : sums_(kMaxDepth * kWidth) {}

void ColumnJoiner::join(const TreeLayout& layout, std::span<const float* const> nodes_of, size_t stride, size_t begin,
                        size_t end, float* out) {
  assert(layout.nodes_of_rank.size() == nodes_of.size());
  assert(layout.join.results == 1 && layout.join.depth <= static_cast<int64_t>(kMaxDepth));
  for (size_t column = begin; column < end; column += kWidth) {
    const size_t width = std::min(kWidth, end - column);
    const float* root = join_block(layout, nodes_of, stride, column, width);
    if (root != out + column) std::copy_n(root, width, out + column);
  }
}

const float* ColumnJoiner::join_block(const TreeLayout& layout, std::span<const float* const> nodes_of, size_t stride,
                                      size_t column, size_t width) {
  size_t size = 0;   // elements on the stack
  size_t input = 0;  // nodes pushed so far
  for (size_t rank = 0; rank < nodes_of.size(); ++rank) {
    for (int64_t node = 0; node < layout.nodes_of_rank[rank]; ++node, ++input) {
      stack_[size++] = nodes_of[rank] + static_cast<size_t>(node) * stride + column;
      for (int merge = 0; merge < layout.join.merges[input]; ++merge) {
        const float* top = stack_[--size];
        const float* below = stack_[size - 1];
        float* sum = &sums_[(size - 1) * kWidth];
        for (size_t i = 0; i < width; ++i) sum[i] = below[i] + top[i];
        stack_[size - 1] = sum;
      }
    }
  }
  return stack_[0];
}

}  // namespace lockstep
