// Finishing a reduction tree over columns: the arithmetic of every all-reduce that keeps the bits, whatever carries the
// nodes from rank to rank.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "base/aligned_buffer.h"
#include "tensor/tensor.h"

namespace lockstep {

// Joins nodes column by column in the order of a TreeLayout. Column i of the result depends on column i of the nodes
// alone, so any division of the columns gives the same bits. One joiner a thread; joining allocates nothing.
class ColumnJoiner {
 public:
  ColumnJoiner();

  // nodes_of[r] points at column 0 of rank r's first node; its nodes lie `stride` floats apart. Writes the root's
  // columns [begin, end) to the same columns of `out`, which may be one of the nodes.
  void join(const TreeLayout& layout, std::span<const float* const> nodes_of, size_t stride, size_t begin, size_t end,
            float* out);

 private:
  static constexpr size_t kWidth =
      256;  // columns at a time: a tree of 64 leaves then works inside the first-level cache
  static constexpr size_t kMaxDepth = 64;  // more than any tree with a 64-bit number of leaves needs

  const float* join_block(const TreeLayout& layout, std::span<const float* const> nodes_of, size_t stride,
                          size_t column, size_t width);

  AlignedBuffer<float> sums_;                    // [kMaxDepth, kWidth], one row for each place of the stack
  std::array<const float*, kMaxDepth> stack_{};  // a node where it lies, or a row of sums_
};

}  // namespace lockstep
