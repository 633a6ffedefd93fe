// What the files of kernels/ share: the tables they make, and the sizes that fix the order of additions.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace lockstep {

// Elements of a leaf summed in one go: a leaf is its chunks of kChunk elements, added first to last. Part of the fixed
// order, and the reason why a panel of dequantised weights stays in the first- and second-level caches.
inline constexpr int64_t kChunk = 512;

// Output columns dequantised together when a product has many rows.
inline constexpr int64_t kPanelColumns = 16;

// Floats from one column of a panel to the next. The extra cache line keeps columns from meeting in the same cache
// sets.
inline constexpr int64_t kPanelPitch = kChunk + 16;
static_assert(kMatmulScratch == kPanelColumns * kPanelPitch);

const Kernels& reference_kernels();

// The tables of vector.cc, or null where the compiler's target has none. They must not be called on a processor without
// the instruction set.
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

// Walks the leaves of `args` for the output columns [n, n + columns): calls sum_leaf(leaf_begin, leaf_end, plane) with
// the plane of `out` that is to hold the leaf's sum, then joins planes as the program says.
template <class SumLeaf>
inline void for_each_leaf(const MatmulArgs& args, int64_t n, int64_t columns, SumLeaf&& sum_leaf) {
  float* top = args.out;  // the plane above the stack
  int64_t begin = 0;
  for (const uint8_t merges : args.leaves.join->merges) {
    const int64_t left = args.w.cols - begin;
    const int64_t end = begin + (left < args.leaves.leaf_cols ? left : args.leaves.leaf_cols);
    sum_leaf(begin, end, top);
    begin = end;
    top += args.plane;
    for (int merge = 0; merge < merges; ++merge) {
      top -= args.plane;
      for (int64_t row = 0; row < args.rows; ++row) {
        const float* upper = top + row * args.ldo + n;
        float* lower = top - args.plane + row * args.ldo + n;
        for (int64_t i = 0; i < columns; ++i) lower[i] += upper[i];
      }
    }
  }
}

}  // namespace lockstep
