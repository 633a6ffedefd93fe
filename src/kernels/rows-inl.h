// Attention and the row-wise and element-wise kernels of the vector tables. Included once per target by vector.cc.
//
// An element-wise result does not depend on where in a call its element stands. Where only +, - and x are needed, which
// are rounded exactly and never fused here, what is left after the last whole vector is computed one by one (RmsNorm,
// Rope, ScaleRow, AddRow). Functions with an exp or a tanh go through the same instructions as the others, on a copy
// filled up.
#if defined(LOCKSTEP_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_ROWS_INL_H_
#undef LOCKSTEP_KERNELS_ROWS_INL_H_
#else
#define LOCKSTEP_KERNELS_ROWS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include <cmath>

#include "kernels/matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
namespace HWY_NAMESPACE {

// The first `count` (< kLanes) floats at p, and `fill` after them.
HWY_INLINE V LoadFirst(const float* p, int64_t count, float fill = 0) {
  alignas(64) float lanes[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = i < count ? p[i] : fill;
  return hn::Load(Floats(), lanes);
}

HWY_INLINE void StoreFirst(V v, int64_t count, float* p) {
  alignas(64) float lanes[kLanes];
  hn::Store(v, Floats(), lanes);
  std::memcpy(p, lanes, static_cast<size_t>(count) * sizeof(float));
}

// Sum of squares: four vectors of chains, vector v of the row to chain v mod 4, folded in a fixed order.
HWY_INLINE float SumOfSquares(const float* x, int64_t width) {
  const Floats f;
  V sums[4] = {hn::Zero(f), hn::Zero(f), hn::Zero(f), hn::Zero(f)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
    for (int64_t chain = 0; chain < 4; ++chain) {
      const V v = hn::LoadU(f, x + i + chain * kLanes);
      sums[chain] = hn::MulAdd(v, v, sums[chain]);
    }
  }
  for (int64_t chain = 0; i < width; ++chain, i += kLanes) {
    const V v = width - i >= kLanes ? hn::LoadU(f, x + i) : LoadFirst(x + i, width - i);
    sums[chain] = hn::MulAdd(v, v, sums[chain]);
  }
  return Fold(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
}

void RmsNorm(const float* x, const float* weight, float* out, int64_t rows, int64_t width, float eps) {
  const Floats f;
  for (int64_t row = 0; row < rows; ++row, x += width, out += width) {
    const float scale = 1.0f / std::sqrt(SumOfSquares(x, width) / static_cast<float>(width) + eps);
    const V scales = hn::Set(f, scale);
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
      hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(f, x + i), scales), hn::LoadU(f, weight + i)), f, out + i);
    }
    for (; i < width; ++i) out[i] = x[i] * scale * weight[i];
  }
}

HWY_INLINE void Rotate(V& first, V& second, V cosine, V sine) {
  const V a = first;
  first = hn::Sub(hn::Mul(a, cosine), hn::Mul(second, sine));
  second = hn::Add(hn::Mul(a, sine), hn::Mul(second, cosine));
}

void Rope(float* heads, int64_t n_heads, int64_t head_dim, int64_t rotary, const float* angles, RopePairs pairs) {
  const Floats f;
  const int64_t half = rotary / 2;
  const bool adjacent = pairs == RopePairs::Adjacent;
  for (int64_t head = 0; head < n_heads; ++head, heads += head_dim) {
    int64_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      V a, b, cosine, sine;
      hn::LoadInterleaved2(f, angles + 2 * i, cosine, sine);
      if (adjacent) {
        hn::LoadInterleaved2(f, heads + 2 * i, a, b);
        Rotate(a, b, cosine, sine);
        hn::StoreInterleaved2(a, b, f, heads + 2 * i);
      } else {
        a = hn::LoadU(f, heads + i);
        b = hn::LoadU(f, heads + half + i);
        Rotate(a, b, cosine, sine);
        hn::StoreU(a, f, heads + i);
        hn::StoreU(b, f, heads + half + i);
      }
    }
    for (; i < half; ++i) {  // the same products and sums, one by one
      float& first = adjacent ? heads[2 * i] : heads[i];
      float& second = adjacent ? heads[2 * i + 1] : heads[half + i];
      const float a = first * angles[2 * i] - second * angles[2 * i + 1];
      second = first * angles[2 * i + 1] + second * angles[2 * i];
      first = a;
    }
  }
}

// 1 / (1 + exp(-x)), written so that exp never overflows.
HWY_INLINE V Sigmoid(V x) {
  const Floats f;
  const V one = hn::Set(f, 1.0f);
  const V e = hn::Exp(f, hn::Neg(hn::Abs(x)));
  const V top = hn::IfThenElse(hn::Ge(x, hn::Zero(f)), one, e);
  return hn::Div(top, hn::Add(one, e));
}

struct Silu {
  static HWY_INLINE V Of(V x) { return hn::Mul(x, Sigmoid(x)); }
};

// (1 + tanh(u)) / 2 is sigmoid(2 u), which keeps its digits where tanh is near -1.
struct Gelu {
  static HWY_INLINE V Of(V x) {
    const Floats f;
    const V cubic = hn::Mul(hn::Mul(hn::Mul(hn::Set(f, kGeluCubic), x), x), x);
    return hn::Mul(x, Sigmoid(hn::Mul(hn::Set(f, kTwoRootTwoOverPi), hn::Add(x, cubic))));
  }
};

// out[i] = Activation(gate[i]) * up[i]
template <class Activation>
void ActivateMul(const float* gate, const float* up, float* out, int64_t count) {
  const Floats f;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(hn::Mul(Activation::Of(hn::LoadU(f, gate + i)), hn::LoadU(f, up + i)), f, out + i);
  }
  if (const int64_t left = count - i; left > 0) {
    StoreFirst(hn::Mul(Activation::Of(LoadFirst(gate + i, left)), LoadFirst(up + i, left)), left, out + i);
  }
}

HWY_INLINE V SoftCap(V x, V cap) {
  return hn::Mul(cap, hn::Tanh(Floats(), hn::Div(x, cap)));
}

void SoftCapRow(float* x, float cap, int64_t count) {
  const Floats f;
  const V caps = hn::Set(f, cap);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(SoftCap(hn::LoadU(f, x + i), caps), f, x + i);
  if (const int64_t left = count - i; left > 0) StoreFirst(SoftCap(LoadFirst(x + i, left), caps), left, x + i);
}

void ScaleRow(float* x, float factor, int64_t count) {
  const Floats f;
  const V factors = hn::Set(f, factor);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::Mul(hn::LoadU(f, x + i), factors), f, x + i);
  for (; i < count; ++i) x[i] *= factor;
}

void AddRow(float* x, const float* y, int64_t count) {
  const Floats f;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::Add(hn::LoadU(f, x + i), hn::LoadU(f, y + i)), f, x + i);
  for (; i < count; ++i) x[i] += y[i];
}

// Rounded to nearest even; a NaN stays a NaN.
HWY_INLINE hn::Vec<Words> ToWords(DType dtype, V v) {
  if (dtype == DType::F16) return hn::BitCast(Words(), hn::DemoteTo(Halves(), v));
  const hn::RebindToUnsigned<Floats> u;
  const auto bits = hn::BitCast(u, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(u, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(u, 0x400000));
  const auto is_nan = hn::RebindMask(u, hn::IsNaN(v));
  return hn::TruncateTo(Words(), hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded)));
}

void FromFloat(DType dtype, const float* in, std::byte* out, int64_t count) {
  assert(dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16);
  if (dtype == DType::F32) {
    if (count > 0) std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  int64_t i = 0;
  alignas(64) uint16_t words[kLanes];
  for (; i < count; i += kLanes) {
    const int64_t here = count - i < kLanes ? count - i : kLanes;
    const V v = here == kLanes ? hn::LoadU(Floats(), in + i) : LoadFirst(in + i, here);
    hn::Store(ToWords(dtype, v), Words(), words);
    std::memcpy(out + 2 * i, words, static_cast<size_t>(here) * sizeof(uint16_t));
  }
}

// Adds the weighted values of one page to out: out[i] += sum over tokens of weights[token] * values[token][i], the
// tokens of a page first to last.
template <class Format>
HWY_NOINLINE void AddValues(const uint8_t* values, const float* weights, int64_t tokens, int64_t head_dim, float* out) {
  constexpr int64_t kElement = Format::kBytes / kBlock;
  constexpr int64_t kStrip = 64 / kLanes;  // vectors summed side by side, to hide the latency of one chain
  const Floats f;
  const int64_t stride = head_dim * kElement;
  int64_t i = 0;
  for (; i + kStrip * kLanes <= head_dim; i += kStrip * kLanes) {
    V sums[kStrip];
    for (int64_t v = 0; v < kStrip; ++v) sums[v] = hn::Zero(f);
    for (int64_t token = 0; token < tokens; ++token) {
      const V weight = hn::Set(f, weights[token]);
      const uint8_t* p = values + token * stride + i * kElement;
      for (int64_t v = 0; v < kStrip; ++v) {
        sums[v] = hn::MulAdd(weight, Format::LoadVector(p + v * kLanes * kElement), sums[v]);
      }
    }
    for (int64_t v = 0; v < kStrip; ++v) {
      float* at = out + i + v * kLanes;
      hn::StoreU(hn::Add(hn::LoadU(f, at), sums[v]), f, at);
    }
  }
  for (; i < head_dim; i += kLanes) {
    const int64_t here = head_dim - i < kLanes ? head_dim - i : kLanes;
    V sum = hn::Zero(f);
    for (int64_t token = 0; token < tokens; ++token) {
      const uint8_t* p = values + token * stride + i * kElement;
      uint8_t padded[kLanes * kElement] = {};
      if (here < kLanes) {
        std::memcpy(padded, p, static_cast<size_t>(here * kElement));
        p = padded;
      }
      sum = hn::MulAdd(hn::Set(f, weights[token]), Format::LoadVector(p), sum);
    }
    StoreFirst(hn::Add(LoadFirst(out + i, here), sum), here, out + i);
  }
}

HWY_INLINE void AddPage(DType dtype, const uint8_t* values, const float* weights, int64_t tokens, int64_t head_dim,
                        float* out) {
  if (dtype == DType::F32) return AddValues<F32>(values, weights, tokens, head_dim, out);
  if (dtype == DType::F16) return AddValues<F16>(values, weights, tokens, head_dim, out);
  return AddValues<BF16>(values, weights, tokens, head_dim, out);
}

// Replaces scores by exp(score - highest) and returns their sum: kLanes chains, score i to chain i mod kLanes.
HWY_INLINE float ExpAndSum(float* scores, int64_t count) {
  const Floats f;
  V highest = hn::Set(f, -INFINITY);
  const int64_t whole = count / kLanes * kLanes;
  const int64_t left = count - whole;
  for (int64_t i = 0; i < whole; i += kLanes) highest = hn::Max(highest, hn::LoadU(f, scores + i));
  if (left > 0) highest = hn::Max(highest, LoadFirst(scores + whole, left, -INFINITY));
  highest = hn::MaxOfLanes(f, highest);
  V sum = hn::Zero(f);
  for (int64_t i = 0; i < whole; i += kLanes) {
    const V e = hn::Exp(f, hn::Sub(hn::LoadU(f, scores + i), highest));
    hn::StoreU(e, f, scores + i);
    sum = hn::Add(sum, e);
  }
  if (left > 0) {
    const V e = hn::Exp(f, hn::Sub(LoadFirst(scores + whole, left, -INFINITY), highest));
    StoreFirst(e, left, scores + whole);
    sum = hn::Add(sum, e);
  }
  return Fold(sum);
}

void Attend(const AttendArgs& args) {
  const KvPages& kv = args.kv;
  assert(VectorFormat(kv.dtype) != nullptr && VectorFormat(kv.dtype)->plain);
  const FormatOps& format = *VectorFormat(kv.dtype);
  const int64_t head_row = kv.head_dim * format.block_bytes / kBlock;  // bytes of one token's key
  const int64_t head_bytes = kv.page_tokens * head_row;
  const auto* base = reinterpret_cast<const uint8_t*>(kv.base) + args.kv_head * head_bytes;

  // Scores: the keys of a page are the columns of a product, whose order is SumTile's.
  for_each_page(args, [&](int64_t page, int64_t skip, int64_t tokens, float* scores) {
    Tile tile;
    tile.x = args.q;
    tile.count = kv.head_dim;
    tile.columns = tokens;
    tile.w = base + kv.pages[page] * kv.page_bytes + skip * head_row;
    tile.pitch = head_row;
    tile.out = scores;
    SumChunk(format.sum_tile, 1, tile, 1);
  });
  const int64_t seen = args.length - args.first;
  ScaleRow(args.scores, args.scale, seen);
  if (args.cap != 0) SoftCapRow(args.scores, args.cap, seen);
  const float sum = ExpAndSum(args.scores, seen);

  for (int64_t i = 0; i < kv.head_dim; ++i) args.out[i] = 0;
  for_each_page(args, [&](int64_t page, int64_t skip, int64_t tokens, const float* weights) {
    const uint8_t* values = base + kv.pages[page] * kv.page_bytes + kv.kv_heads * head_bytes + skip * head_row;
    AddPage(kv.dtype, values, weights, tokens, kv.head_dim, args.out);
  });
  for (int64_t i = 0; i < kv.head_dim; ++i) args.out[i] /= sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // the toggled guard
