// The plain C++ table: the fallback on any processor, and the definition of what the vector tables compute.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "kernels/tables.h"

namespace lockstep {
namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

float float_from_half(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

float float_from_bfloat(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

uint16_t half_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // NaN stays NaN, quiet
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;                                // rounds to 2^16 or more
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 rounds to multiples of 2^-24, the subnormals' unit
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000u);
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return sign | static_cast<uint16_t>((magnitude - (112u << 23) + 0xfffu + odd) >> 13);
}

uint16_t bfloat_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);  // NaN stays NaN, quiet
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

// The code of element i in 16 bytes that hold elements 0-15 in their low and 16-31 in their high halves.
int nibble(const std::byte* codes, int64_t i) {
  const auto byte = std::to_integer<int>(codes[i % 16]);
  return i < 16 ? byte & 15 : byte >> 4;
}

int fifth_bit(const std::byte* bits, int64_t i) {
  return static_cast<int>((load<uint32_t>(bits) >> i) & 1) << 4;
}

// Element i of a block (of the row itself in plain formats). Products and sums are rounded one by one.
float element(DType dtype, const std::byte* block, int64_t i) {
  const auto half_at = [block](int64_t offset) { return float_from_half(load<uint16_t>(block + offset)); };
  switch (dtype) {
    case DType::F32:
      return load<float>(block + 4 * i);
    case DType::F16:
      return half_at(2 * i);
    case DType::BF16:
      return float_from_bfloat(load<uint16_t>(block + 2 * i));
    case DType::Q4_0:  // d, 16 bytes of codes
      return half_at(0) * static_cast<float>(nibble(block + 2, i) - 8);
    case DType::Q4_1:  // d, m, 16 bytes of codes
      return half_at(0) * static_cast<float>(nibble(block + 4, i)) + half_at(2);
    case DType::Q5_0:  // d, 32 fifth bits, 16 bytes of codes
      return half_at(0) * static_cast<float>((nibble(block + 6, i) | fifth_bit(block + 2, i)) - 16);
    case DType::Q5_1:  // d, m, 32 fifth bits, 16 bytes of codes
      return half_at(0) * static_cast<float>(nibble(block + 8, i) | fifth_bit(block + 4, i)) + half_at(2);
    case DType::Q8_0:  // d, 32 signed codes
      return static_cast<float>(load<int8_t>(block + 2 + i)) * half_at(0);
  }
  assert(false && "a DType outside the enumeration");
  return 0;
}

void dequantize(DType dtype, const std::byte* row, int64_t first, int64_t count, float* out) {
  const DTypeInfo& format = info(dtype);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i;
    const std::byte* block = row + at / format.block_elements * format.block_bytes;
    out[i] = element(dtype, block, at % format.block_elements);
  }
}

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
        dequantize(w.dtype, w.data + n * w.row_bytes, w.lead + k, count, args.scratch);
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

void attend(const AttendArgs& args) {
  const KvPages& kv = args.kv;
  const int64_t head_bytes = kv.page_tokens * row_bytes(kv.dtype, kv.head_dim);
  const int64_t pages = ceil_div(args.length, kv.page_tokens);
  const auto tokens_of = [&](int64_t page) { return std::min(kv.page_tokens, args.length - page * kv.page_tokens); };
  const auto keys_of = [&](int64_t page) {
    return kv.base + kv.pages[page] * kv.page_bytes + args.kv_head * head_bytes;
  };

  float highest = -INFINITY;
  for (int64_t page = 0; page < pages; ++page) {
    float* scores = args.scores + page * kv.page_tokens;
    for (int64_t token = 0; token < tokens_of(page); ++token) {
      float score = 0;
      for (int64_t i = 0; i < kv.head_dim; ++i) {
        score += args.q[i] * element(kv.dtype, keys_of(page), token * kv.head_dim + i);
      }
      scores[token] = args.scale * score;
      highest = std::max(highest, scores[token]);
    }
  }
  float sum = 0;
  std::fill_n(args.out, kv.head_dim, 0.0f);
  for (int64_t page = 0; page < pages; ++page) {
    float* scores = args.scores + page * kv.page_tokens;
    for (int64_t token = 0; token < tokens_of(page); ++token) sum += scores[token] = std::exp(scores[token] - highest);
    const std::byte* values = keys_of(page) + kv.kv_heads * head_bytes;
    for (int64_t i = 0; i < kv.head_dim; ++i) {
      float part = 0;
      for (int64_t token = 0; token < tokens_of(page); ++token) {
        part += scores[token] * element(kv.dtype, values, token * kv.head_dim + i);
      }
      args.out[i] += part;
    }
  }
  for (int64_t i = 0; i < kv.head_dim; ++i) args.out[i] /= sum;
}

// x / (1 + exp(-x)), written so that exp never overflows.
float silu(float x) {
  const float e = std::exp(-std::abs(x));
  return x * ((x >= 0 ? 1.0f : e) / (1.0f + e));
}

void silu_mul(const float* gate, const float* up, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = silu(gate[i]) * up[i];
}

void add(float* x, const float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] += y[i];
}

void from_float(DType dtype, const float* in, std::byte* out, int64_t count) {
  assert(dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16);
  if (dtype == DType::F32) {
    if (count > 0) std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = dtype == DType::F16 ? half_from_float(in[i]) : bfloat_from_float(in[i]);
    std::memcpy(out + 2 * i, &bits, sizeof(bits));
  }
}

constexpr Kernels kReference = {.isa = "reference",
                                .dequantize = dequantize,
                                .matmul = matmul,
                                .rms_norm = rms_norm,
                                .rope = rope,
                                .attend = attend,
                                .silu_mul = silu_mul,
                                .add = add,
                                .from_float = from_float};

}  // namespace

const Kernels& reference_kernels() {
  return kReference;
}

}  // namespace lockstep
