// The plain C++ table: the fallback on any processor, and the definition of what the vector tables compute.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/decode.h"
#include "kernels/tables.h"

namespace lockstep {
namespace {

// Eight partial sums, element k to sum k mod 8, joined by halves: a fixed order, and one a compiler can keep in
// vectors.
float dot(const float* a, const float* b, int64_t count) {
  std::array<float, 8> sums{};
  int64_t k = 0;
  for (; k + 8 <= count; k += 8) {
    for (int64_t i = 0; i < 8; ++i) sums[i] += a[k + i] * b[k + i];
  }
  for (int64_t i = 0; k + i < count; ++i) sums[i] += a[k + i] * b[k + i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

void matmul(const MatmulArgs& args) {
  const WeightMatrix& w = args.w;
  for (int64_t n = args.n_begin; n < args.n_end; ++n) {
    for_each_leaf(args, n, 1, [&](int64_t begin, int64_t end, float* out) {
      for (int64_t k = begin; k < end; k += kChunk) {
        const int64_t count = std::min(kChunk, end - k);
        dequantize_stored(w.dtype, w.data + n * w.row_bytes, w.lead + k, count, args.scratch);
        for (int64_t row = 0; row < args.rows; ++row) {
          const float sum = dot(args.scratch, args.x + row * args.ldx + k, count);
          float& total = out[row * args.ldo + n];
          total = k == begin ? sum : total + sum;
        }
      }
    });
  }
}

void rms_norm(const float* x, const float* weight, float* out, int64_t rows, int64_t width, float eps) {
  for (int64_t row = 0; row < rows; ++row, x += width, out += width) {
    const float mean = dot(x, x, width) / static_cast<float>(width);
    const float scale = 1.0f / std::sqrt(mean + eps);
    for (int64_t i = 0; i < width; ++i) out[i] = x[i] * scale * weight[i];
  }
}

void rope(float* heads, int64_t n_heads, int64_t head_dim, int64_t rotary, const float* angles, RopePairs pairs) {
  const int64_t half = rotary / 2;
  const bool adjacent = pairs == RopePairs::Adjacent;
  for (int64_t head = 0; head < n_heads; ++head, heads += head_dim) {
    for (int64_t i = 0; i < half; ++i) {
      float& first = adjacent ? heads[2 * i] : heads[i];
      float& second = adjacent ? heads[2 * i + 1] : heads[half + i];
      const float cosine = angles[2 * i];
      const float sine = angles[2 * i + 1];
      const float a = first;
      const float b = second;
      first = a * cosine - b * sine;
      second = a * sine + b * cosine;
    }
  }
}

void soft_cap(float* x, float cap, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = cap * std::tanh(x[i] / cap);
}

void scale(float* x, float factor, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] *= factor;
}

void attend(const AttendArgs& args) {
  const KvPages& kv = args.kv;
  const int64_t head_bytes = kv.page_tokens * row_bytes(kv.dtype, kv.head_dim);
  const int64_t seen = args.length - args.first;
  const auto dot_key = [&](const std::byte* keys, int64_t token) {
    float sum = 0;
    for (int64_t i = 0; i < kv.head_dim; ++i) sum += args.q[i] * plain_element(kv.dtype, keys, token * kv.head_dim + i);
    return sum;
  };

  for_each_page(args, [&](int64_t page, int64_t skip, int64_t tokens, float* scores) {
    const std::byte* keys = kv.base + kv.pages[page] * kv.page_bytes + args.kv_head * head_bytes;
    for (int64_t token = 0; token < tokens; ++token) scores[token] = args.scale * dot_key(keys, skip + token);
  });
  if (args.cap != 0) soft_cap(args.scores, args.cap, seen);
  const float highest = *std::max_element(args.scores, args.scores + seen);

  float sum = 0;
  std::fill_n(args.out, kv.head_dim, 0.0f);
  for_each_page(args, [&](int64_t page, int64_t skip, int64_t tokens, float* scores) {
    for (int64_t token = 0; token < tokens; ++token) sum += scores[token] = std::exp(scores[token] - highest);
    const std::byte* keys = kv.base + kv.pages[page] * kv.page_bytes + args.kv_head * head_bytes;
    const std::byte* values = keys + kv.kv_heads * head_bytes;
    for (int64_t i = 0; i < kv.head_dim; ++i) {
      float part = 0;
      for (int64_t token = 0; token < tokens; ++token) {
        part += scores[token] * plain_element(kv.dtype, values, (skip + token) * kv.head_dim + i);
      }
      args.out[i] += part;
    }
  });
  for (int64_t i = 0; i < kv.head_dim; ++i) args.out[i] /= sum;
}

// 1 / (1 + exp(-x)), written so that exp never overflows.
float sigmoid(float x) {
  const float e = std::exp(-std::abs(x));
  return (x >= 0 ? 1.0f : e) / (1.0f + e);
}

void silu_mul(const float* gate, const float* up, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

// (1 + tanh(u)) / 2 is sigmoid(2 u), which keeps its digits where tanh is near -1.
void gelu_mul(const float* gate, const float* up, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = gate[i];
    out[i] = x * sigmoid(kTwoRootTwoOverPi * (x + kGeluCubic * x * x * x)) * up[i];
  }
}

void add(float* x, const float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] += y[i];
}

constexpr Kernels kReference = {.isa = "reference",
                                .dequantize = dequantize_stored,
                                .matmul = matmul,
                                .rms_norm = rms_norm,
                                .rope = rope,
                                .attend = attend,
                                .silu_mul = silu_mul,
                                .gelu_mul = gelu_mul,
                                .soft_cap = soft_cap,
                                .scale = scale,
                                .sigmoid_mul = plain_sigmoid_mul,
                                .delta_step = plain_delta_step,
                                .add = add,
                                .from_float = store_floats};

}  // namespace

const Kernels& reference_kernels() {
  return kReference;
}

}  // namespace lockstep
