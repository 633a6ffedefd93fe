// The door of kernels/: arithmetic on raw pointers, one table of functions per instruction set.
//
// A kernel works on the rows and columns it is given, starts no thread and allocates nothing. Its order of additions
// depends on the weight matrix alone: never on how many rows or columns one call covers, so every output element has
// the same bits whoever computes it (promise 2). Different instruction sets may differ in the last bits. reference.cc
// is plain C++ and the oracle of the others; vector.cc is written once with Highway and compiled for each target;
// dispatch.cc picks one table at start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace lockstep {

// A rank's slice of a weight matrix, in the bytes of its format. Row n is one output column of the product. The slice
// holds elements [lead, lead + cols) of the stored row: lead is not 0 when a boundary falls inside a block, which both
// neighbours then keep whole.
struct WeightMatrix {
  DType dtype = DType::F32;
  const std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_bytes = 0;  // from one row to the next; rows begin at block borders
  int64_t lead = 0;
};

// The leaves of one rank's run, in elements of the slice: leaf i covers [i * leaf_cols, min((i + 1) * leaf_cols,
// cols)). Slices begin at leaves. `join` is join_leaves() of the run, one input a leaf. A column-parallel product has
// one leaf.
struct LeafSum {
  int64_t leaf_cols = 0;
  const JoinProgram* join = nullptr;
};

// out[node][row][n] = the node's part of sum_k x[row][k] * w[n][k], for n in [n_begin, n_end).
// Needs out of [join->depth, rows, ldo]: the first join->results planes hold the nodes afterwards, the rest is scratch.
struct MatmulArgs {
  const float* x = nullptr;  // [rows, ldx], the first w.cols of each row are used
  int64_t rows = 0;
  int64_t ldx = 0;
  WeightMatrix w;
  LeafSum leaves;
  int64_t n_begin = 0;
  int64_t n_end = 0;
  float* out = nullptr;      // [join->depth, rows, ldo]
  int64_t ldo = 0;           // from one row to the next
  int64_t plane = 0;         // from one node to the next, in floats
  float* scratch = nullptr;  // [kMatmulScratch] of the calling thread
};

// Floats of scratch a thread needs for any product: a panel of dequantised weights, which is as large for every leaf.
inline constexpr int64_t kMatmulScratch = 16 * (512 + 16);

enum class RopePairs {
  Adjacent,  // (x[2i], x[2i + 1]): GGUF Llama
  Halves,    // (x[i], x[i + rotary / 2]): Hugging Face
};

// The cache of one layer and one sequence, as pages. In a page, `keys` is [kv_heads, page_tokens, head_dim] and
// `values` the same, keys first.
struct KvPages {
  DType dtype = DType::F32;   // F32, F16 or BF16
  std::byte* base = nullptr;  // page p begins at base + p * page_bytes
  int64_t page_bytes = 0;
  const int32_t* pages = nullptr;  // page of tokens [i * page_tokens, (i + 1) * page_tokens)
  int64_t page_tokens = 0;
  int64_t kv_heads = 0;  // heads this rank holds
  int64_t head_dim = 0;
};

// One query row and one head against positions [first, length) of its sequence; there is at least one.
// out = softmax(s) V with s = scale * q . K, or s = cap * tanh(scale * q . K / cap). The sum over positions runs in a
// fixed order that depends on `first`, `length` and kv.page_tokens alone: pages first to last, the positions of a page
// first to last. Pages before the one that holds `first` are not looked at, nor are their entries of kv.pages.
struct AttendArgs {
  const float* q = nullptr;  // [head_dim]
  KvPages kv;
  int64_t kv_head = 0;  // within kv.kv_heads
  int64_t first = 0;
  int64_t length = 0;
  float scale = 1;
  float cap = 0;            // soft cap of the scaled scores; 0: none
  float* scores = nullptr;  // scratch of the calling thread: [length - first], position p at scores[p - first]
  float* out = nullptr;     // [head_dim]
};

// One token of one value head of a gated delta net: the state decays, is corrected towards v where k points, and is
// read where q points. state: [value_dim, key_dim]; state *= keep; state += (v - state k) write k^T; out = state q.
struct DeltaStepArgs {
  float* state = nullptr;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  const float* q = nullptr;  // [key_dim]
  const float* k = nullptr;
  const float* v = nullptr;  // [value_dim]
  float keep = 1;
  float write = 0;
  float* out = nullptr;  // [value_dim]
};

struct Kernels {
  std::string_view isa;  // "reference", "avx2", "avx512"

  // elements [first, first + count) of a stored row to float, bit-equal to the `gguf` package's dequantisation and to
  // mlx.core.dequantize with scales and biases as float32.
  void (*dequantize)(DType dtype, const std::byte* row, int64_t first, int64_t count, float* out);
  void (*matmul)(const MatmulArgs& args);
  // out[row] = x[row] / sqrt(mean(x[row]^2) + eps) * weight; x and out may be the same.
  void (*rms_norm)(const float* x, const float* weight, float* out, int64_t rows, int64_t width, float eps);
  // Rotates the first `rotary` elements of each head; angles is [rotary / 2][2]: cosine, sine.
  void (*rope)(float* heads, int64_t n_heads, int64_t head_dim, int64_t rotary, const float* angles, RopePairs pairs);
  void (*attend)(const AttendArgs& args);
  // out[i] = silu(gate[i]) * up[i]; out may be gate or up.
  void (*silu_mul)(const float* gate, const float* up, float* out, int64_t count);
  // out[i] = gelu(gate[i]) * up[i], gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))); out may be gate or
  // up.
  void (*gelu_mul)(const float* gate, const float* up, float* out, int64_t count);
  // x[i] = cap * tanh(x[i] / cap), cap > 0
  void (*soft_cap)(float* x, float cap, int64_t count);
  // x[i] *= factor
  void (*scale)(float* x, float factor, int64_t count);
  // out[i] = sigmoid(gate[i]) * x[i]; out may be gate or x.
  void (*sigmoid_mul)(const float* gate, const float* x, float* out, int64_t count);
  void (*delta_step)(const DeltaStepArgs& args);
  // x[i] += y[i]
  void (*add)(float* x, const float* y, int64_t count);
  // count floats to F32, F16 or BF16, round to nearest even.
  void (*from_float)(DType dtype, const float* in, std::byte* out, int64_t count);
};

// Every table this processor and operating system can run, best first; the last is "reference".
std::vector<const Kernels*> supported_kernels();

// The best table, or the one LOCKSTEP_FORCE_ISA names (empty is unset). Throws Error(Usage) that lists the known names
// for an unknown or unsupported one.
const Kernels& select_kernels();

}  // namespace lockstep
