// How each format becomes float vectors. Included once per target by vector.cc.
//
// A format is a type with
//   kBytes        bytes of 32 elements (one block of a quantised format)
//   kPlain        whether elements can be addressed one by one
//   Load(p, w)    32 elements, as kVectors vectors in order
// and plain formats have LoadVector(p): kLanes elements. Each element is rounded as the reference rounds it: a product,
// then a sum, never fused. Loads never leave the bytes of the elements asked for.
#if defined(LOCKSTEP_KERNELS_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_FORMATS_INL_H_
#undef LOCKSTEP_KERNELS_FORMATS_INL_H_
#else
#define LOCKSTEP_KERNELS_FORMATS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "kernels/tables.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Halves = hn::Rebind<hwy::float16_t, Floats>;  // as many 16-bit lanes as Floats has
using Words = hn::Rebind<uint16_t, Floats>;
using Bytes = hn::Rebind<uint8_t, Floats>;
using SignedBytes = hn::Rebind<int8_t, Floats>;
using V = hn::Vec<Floats>;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Floats()));
constexpr int64_t kBlock = 32;
constexpr int64_t kVectors = kBlock / kLanes;

template <class T>
HWY_INLINE T LoadBits(const uint8_t* p) {
  T bits;
  std::memcpy(&bits, p, sizeof(T));
  return bits;
}

// The float of the half at p, in every lane.
HWY_INLINE V BroadcastHalf(const uint8_t* p) {
  return hn::PromoteTo(Floats(), hn::BitCast(Halves(), hn::Set(Words(), LoadBits<uint16_t>(p))));
}

// d * (code - offset), and d * code + m: each operation rounded by itself.
struct ScaledCode {
  V d;
  int32_t offset;
  HWY_INLINE V Of(hn::Vec<Ints> code) const {
    return hn::Mul(d, hn::ConvertTo(Floats(), hn::Sub(code, hn::Set(Ints(), offset))));
  }
};
struct AffineCode {
  V d, m;
  HWY_INLINE V Of(hn::Vec<Ints> code) const { return hn::Add(hn::Mul(d, hn::ConvertTo(Floats(), code)), m); }
};

// 32 four-bit codes from 16 bytes: elements 0-15 in the low halves, 16-31 in the high halves.
HWY_INLINE void LoadNibbles(const uint8_t* p, hn::Vec<Ints> (&codes)[kVectors]) {
  for (int64_t v = 0; v < kVectors / 2; ++v) {
    const auto bytes = hn::PromoteTo(Ints(), hn::LoadU(Bytes(), p + v * kLanes));
    codes[v] = hn::And(bytes, hn::Set(Ints(), 15));
    codes[v + kVectors / 2] = hn::ShiftRight<4>(bytes);
  }
}

// 32 five-bit codes: the fifth bits in 4 bytes at `high`, the rest as above.
HWY_INLINE void LoadFiveBits(const uint8_t* high, const uint8_t* low, hn::Vec<Ints> (&codes)[kVectors]) {
  LoadNibbles(low, codes);
  const auto sixteen = hn::Set(Ints(), 16);
  for (int64_t v = 0; v < kVectors; ++v) {
    const auto set = hn::LoadMaskBits(Ints(), high + v * kLanes / 8);
    codes[v] = hn::Or(codes[v], hn::IfThenElseZero(set, sixteen));
  }
}

// The 32 elements of a block whose 16 codes stand for the values value.Of(code): looked up where one vector holds all
// 16 values (the same products and sums, made once a block instead of once an element), computed where it does not.
template <class Value>
HWY_INLINE void LoadCoded(const uint8_t* codes_at, const Value& value, V (&w)[kVectors]) {
  const Floats f;
  hn::Vec<Ints> codes[kVectors];
  LoadNibbles(codes_at, codes);
  if constexpr (kLanes == 16) {
    const V table = value.Of(hn::Iota(Ints(), 0));
    for (int64_t v = 0; v < kVectors; ++v) w[v] = hn::TableLookupLanes(table, hn::IndicesFromVec(f, codes[v]));
  } else {
    for (int64_t v = 0; v < kVectors; ++v) w[v] = value.Of(codes[v]);
  }
}

struct F32 {
  static constexpr bool kPlain = true;
  static constexpr int64_t kBytes = 4 * kBlock;
  static HWY_INLINE V LoadVector(const uint8_t* p) { return hn::LoadU(Floats(), reinterpret_cast<const float*>(p)); }
};

struct F16 {
  static constexpr bool kPlain = true;
  static constexpr int64_t kBytes = 2 * kBlock;
  static HWY_INLINE V LoadVector(const uint8_t* p) {
    return hn::PromoteTo(Floats(), hn::LoadU(Halves(), reinterpret_cast<const hwy::float16_t*>(p)));
  }
};

struct BF16 {
  static constexpr bool kPlain = true;
  static constexpr int64_t kBytes = 2 * kBlock;
  static HWY_INLINE V LoadVector(const uint8_t* p) {
    const auto bits = hn::PromoteTo(Ints(), hn::LoadU(Words(), reinterpret_cast<const uint16_t*>(p)));
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(bits));
  }
};

struct Q4_0 {
  static constexpr bool kPlain = false;
  static constexpr int64_t kBytes = 18;
  static HWY_INLINE void Load(const uint8_t* p, V (&w)[kVectors]) {
    LoadCoded(p + 2, ScaledCode{BroadcastHalf(p), 8}, w);
  }
};

struct Q4_1 {
  static constexpr bool kPlain = false;
  static constexpr int64_t kBytes = 20;
  static HWY_INLINE void Load(const uint8_t* p, V (&w)[kVectors]) {
    LoadCoded(p + 4, AffineCode{BroadcastHalf(p), BroadcastHalf(p + 2)}, w);
  }
};

struct Q5_0 {
  static constexpr bool kPlain = false;
  static constexpr int64_t kBytes = 22;
  static HWY_INLINE void Load(const uint8_t* p, V (&w)[kVectors]) {
    const ScaledCode value = {BroadcastHalf(p), 16};
    hn::Vec<Ints> codes[kVectors];
    LoadFiveBits(p + 2, p + 6, codes);
    for (int64_t v = 0; v < kVectors; ++v) w[v] = value.Of(codes[v]);
  }
};

struct Q5_1 {
  static constexpr bool kPlain = false;
  static constexpr int64_t kBytes = 24;
  static HWY_INLINE void Load(const uint8_t* p, V (&w)[kVectors]) {
    const AffineCode value = {BroadcastHalf(p), BroadcastHalf(p + 2)};
    hn::Vec<Ints> codes[kVectors];
    LoadFiveBits(p + 4, p + 8, codes);
    for (int64_t v = 0; v < kVectors; ++v) w[v] = value.Of(codes[v]);
  }
};

struct Q8_0 {
  static constexpr bool kPlain = false;
  static constexpr int64_t kBytes = 34;
  static HWY_INLINE void Load(const uint8_t* p, V (&w)[kVectors]) {
    const V d = BroadcastHalf(p);
    for (int64_t v = 0; v < kVectors; ++v) {
      const auto* codes = reinterpret_cast<const int8_t*>(p + 2 + v * kLanes);
      w[v] = hn::Mul(hn::ConvertTo(Floats(), hn::PromoteTo(Ints(), hn::LoadU(SignedBytes(), codes))), d);
    }
  }
};

// 32 elements as floats.
template <class Format>
HWY_INLINE void LoadBlock(const uint8_t* p, V (&w)[kVectors]) {
  if constexpr (Format::kPlain) {
    for (int64_t v = 0; v < kVectors; ++v) w[v] = Format::LoadVector(p + v * kLanes * Format::kBytes / kBlock);
  } else {
    Format::Load(p, w);
  }
}

// Lanes of vector v that hold elements when only the first `count` of a block are wanted.
HWY_INLINE int64_t LanesUsed(int64_t count, int64_t v) {
  const int64_t lanes = count - v * kLanes;
  return lanes < 0 ? 0 : (lanes < kLanes ? lanes : kLanes);
}

// The first `count` (< 32) elements of a block and zeros after them.
template <class Format>
HWY_INLINE void LoadPart(const uint8_t* p, int64_t count, V (&w)[kVectors]) {
  if constexpr (Format::kPlain) {
    constexpr int64_t kElement = Format::kBytes / kBlock;
    for (int64_t v = 0; v < kVectors; ++v) {
      const int64_t lanes = LanesUsed(count, v);
      if (lanes == kLanes) {
        w[v] = Format::LoadVector(p + v * kLanes * kElement);
      } else {
        uint8_t padded[kLanes * kElement] = {};
        if (lanes > 0) std::memcpy(padded, p + v * kLanes * kElement, static_cast<size_t>(lanes * kElement));
        w[v] = Format::LoadVector(padded);
      }
    }
  } else {
    LoadBlock<Format>(p, w);
    for (int64_t v = 0; v < kVectors; ++v) {
      w[v] = hn::IfThenElseZero(hn::FirstN(Floats(), static_cast<size_t>(LanesUsed(count, v))), w[v]);
    }
  }
}

HWY_INLINE void StoreBlock(const V (&w)[kVectors], float* out) {
  for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(w[v], Floats(), out + v * kLanes);
}

// Elements [first, first + count) of a row.
template <class Format>
HWY_NOINLINE void Dequantize(const uint8_t* row, int64_t first, int64_t count, float* out) {
  V w[kVectors];
  alignas(64) float block[kBlock];
  const uint8_t* p = row + (Format::kPlain ? first * (Format::kBytes / kBlock) : first / kBlock * Format::kBytes);
  const int64_t skip = Format::kPlain ? 0 : first % kBlock;
  if (skip > 0 && count > 0) {
    const int64_t here = count < kBlock - skip ? count : kBlock - skip;
    LoadBlock<Format>(p, w);
    StoreBlock(w, block);
    std::memcpy(out, block + skip, static_cast<size_t>(here) * sizeof(float));
    p += Format::kBytes;
    out += here;
    count -= here;
  }
  for (; count >= kBlock; count -= kBlock, out += kBlock, p += Format::kBytes) {
    LoadBlock<Format>(p, w);
    StoreBlock(w, out);
  }
  if (count > 0) {
    LoadPart<Format>(p, count, w);
    StoreBlock(w, block);
    std::memcpy(out, block, static_cast<size_t>(count) * sizeof(float));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // the toggled guard
