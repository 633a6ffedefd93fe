// What the files of kernels/ share: the tables they make, and the sizes that fix the order of additions.
#pragma once

#include <cassert>
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

// recurrent.cc's, the same in every table.
void plain_sigmoid_mul(const float* gate, const float* x, float* out, int64_t count);
void plain_delta_step(const DeltaStepArgs& args);

// gelu's constants: 2 * sqrt(2 / pi), and the factor of x^3.
inline constexpr float kTwoRootTwoOverPi = 1.5957691216f;
inline constexpr float kGeluCubic = 0.044715f;

// Walks the pages that hold the positions [first, length) of `args`: calls visit(page, skip, tokens, scores) for tokens
// [skip, skip + tokens) of page number `page` of the sequence, whose scores begin at `scores`.
template <class Visit>
inline void for_each_page(const AttendArgs& args, Visit&& visit) {
  assert(0 <= args.first && args.first < args.length);
  const int64_t size = args.kv.page_tokens;
  for (int64_t begin = args.first; begin < args.length;) {
    const int64_t page = begin / size;
    const int64_t page_end = (page + 1) * size;
    const int64_t end = page_end < args.length ? page_end : args.length;
    visit(page, begin - page * size, end - begin, args.scores + (begin - args.first));
    begin = end;
  }
}

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
