// Every stored format as scale * code + offset.
//
// A block is decoded in pieces of 32 elements (16 where the block has no more), because a slice may need only a few of
// the 256 elements of a block. Within a piece 16 consecutive elements share a scale and an offset. Layouts are those
// that the `gguf` package and MLX read; each product and each sum is rounded by itself, as they round it.
#include "kernels/decode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>

namespace lockstep {
namespace {

constexpr int64_t kPiece = 32;
constexpr int64_t kScaled = 16;  // elements of a piece under one scale

// Value i is scale[i / 16] * code[i] + offset[i / 16]. Without an offset that is -0, which changes no value, not even
// the sign of a zero.
struct Piece {
  std::array<float, kPiece> code;
  std::array<float, 2> scale{};
  std::array<float, 2> offset = {-0.0f, -0.0f};

  void set_scale(float value) { scale = {value, value}; }
  void set_offset(float value) { offset = {value, value}; }
  template <int64_t kCount = kPiece, class CodeOf>
  void fill(CodeOf&& code_of) {
    for (int64_t i = 0; i < kCount; ++i) code[static_cast<size_t>(i)] = static_cast<float>(code_of(i));
  }
};

template <class T>
T load(const void* at) {
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

float half_at(const uint8_t* p) {
  return float_from_half(load<uint16_t>(p));
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

// ---- codes and scales that are small floats or places in a code book ----

// e4m3: sign, 4 bits of exponent (bias 7), 3 of fraction; no infinity, all ones is NaN.
constexpr float float_from_e4m3(uint8_t bits) {
  const uint32_t exponent = (bits >> 3) & 15;
  const uint32_t fraction = bits & 7;
  float magnitude = std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) {
    magnitude = static_cast<float>(fraction) * 0x1p-9f;
  } else if ((bits & 0x7f) != 0x7f) {
    magnitude = std::bit_cast<float>(((exponent + 120) << 23) | (fraction << 20));
  }
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}
constexpr auto kE4m3 = [] {
  std::array<float, 256> values{};
  for (size_t i = 0; i < values.size(); ++i) values[i] = float_from_e4m3(static_cast<uint8_t>(i));
  return values;
}();

// e2m1: sign, 2 bits of exponent, 1 of fraction. GGUF doubles the values to integers, which have no -0.
constexpr std::array<float, 16> kE2m1 = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                         -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
constexpr std::array<int8_t, 16> kE2m1Doubled = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// e8m0: 2^(bits - 127). 255 is infinity, as MLX has it.
float float_from_e8m0(uint8_t bits) {
  return std::bit_cast<float>(bits == 0 ? 0x00400000u : uint32_t{bits} << 23);
}

// Half of that, finite for 255 too, as the `gguf` package has it: its codes are doubled.
float half_of_e8m0(uint8_t bits) {
  return std::bit_cast<float>(bits < 2 ? 0x00200000u << bits : (uint32_t{bits} - 1) << 23);
}

// The values of IQ4_NL and IQ4_XS: closer together near zero.
constexpr std::array<int8_t, 16> kIq4 = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// ---- GGUF, blocks of 32 ----

// The code of element i in 16 bytes that hold elements 0-15 in their low and 16-31 in their high halves.
int nibble(const uint8_t* codes, int64_t i) {
  return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
}

int bit(uint32_t bits, int64_t i) {
  return static_cast<int>((bits >> i) & 1);
}

// d, codes
void decode_q4_0(const DTypeInfo&, const uint8_t* block, int64_t, Piece& out) {
  out.set_scale(half_at(block));
  out.fill([&](int64_t i) { return nibble(block + 2, i) - 8; });
}

// d, m, codes
void decode_q4_1(const DTypeInfo&, const uint8_t* block, int64_t, Piece& out) {
  out.set_scale(half_at(block));
  out.set_offset(half_at(block + 2));
  out.fill([&](int64_t i) { return nibble(block + 4, i); });
}

// d, 32 fifth bits, codes
void decode_q5_0(const DTypeInfo&, const uint8_t* block, int64_t, Piece& out) {
  const auto fifth = load<uint32_t>(block + 2);
  out.set_scale(half_at(block));
  out.fill([&](int64_t i) { return (nibble(block + 6, i) | bit(fifth, i) << 4) - 16; });
}

// d, m, 32 fifth bits, codes
void decode_q5_1(const DTypeInfo&, const uint8_t* block, int64_t, Piece& out) {
  const auto fifth = load<uint32_t>(block + 4);
  out.set_scale(half_at(block));
  out.set_offset(half_at(block + 2));
  out.fill([&](int64_t i) { return nibble(block + 8, i) | bit(fifth, i) << 4; });
}

// d, signed codes
void decode_q8_0(const DTypeInfo&, const uint8_t* block, int64_t, Piece& out) {
  out.set_scale(half_at(block));
  out.fill([&](int64_t i) { return static_cast<int8_t>(block[2 + i]); });
}

// d, codes
void decode_iq4_nl(const DTypeInfo&, const uint8_t* block, int64_t, Piece& out) {
  out.set_scale(half_at(block));
  out.fill([&](int64_t i) { return kIq4[static_cast<size_t>(nibble(block + 2, i))]; });
}

// e8m0, codes
void decode_mxfp4(const DTypeInfo&, const uint8_t* block, int64_t, Piece& out) {
  out.set_scale(half_of_e8m0(block[0]));
  out.fill([&](int64_t i) { return kE2m1Doubled[static_cast<size_t>(nibble(block + 1, i))]; });
}

// ---- GGUF, blocks of 256: scales of 16 or 32 elements are small integers times a scale of the block ----

// 2-bit codes of piece p in 64 bytes: pieces 0-3 lie in bits 0-1, 2-3, 4-5, 6-7 of bytes 0-31, pieces 4-7 in bytes
// 32-63.
int two_bits(const uint8_t* codes, int64_t p, int64_t i) {
  return (codes[32 * (p / 4) + i] >> (2 * (p % 4))) & 3;
}

// 4-bit codes of piece p in 128 bytes: even pieces in the low halves of 32 bytes, odd ones in the high halves.
int four_bits(const uint8_t* codes, int64_t p, int64_t i) {
  return (codes[32 * (p / 2) + i] >> (4 * (p % 2))) & 15;
}

// 16 scales (low) and minima (high) of 4 bits, codes, d, dmin
void decode_q2_k(const DTypeInfo&, const uint8_t* block, int64_t p, Piece& out) {
  const float d = half_at(block + 80);
  const float dmin = half_at(block + 82);
  for (int64_t s = 0; s < 2; ++s) {
    const uint8_t pair = block[2 * p + s];
    out.scale[static_cast<size_t>(s)] = d * static_cast<float>(pair & 15);
    out.offset[static_cast<size_t>(s)] = -(dmin * static_cast<float>(pair >> 4));
  }
  out.fill([&](int64_t i) { return two_bits(block + 16, p, i); });
}

// 32 bytes of third bits, of piece p in bit p; the other bits; 16 scales of 6 bits; d. A third bit that is not set
// takes 4 away. Of scale k the low 4 bits lie in the low (k < 8) or high half of byte k mod 8, the high 2 in byte
// 8 + k mod 4, bits 2 (k / 4) and up.
void decode_q3_k(const DTypeInfo&, const uint8_t* block, int64_t p, Piece& out) {
  const uint8_t* scales = block + 96;
  const float d = half_at(block + 108);
  for (int64_t s = 0; s < 2; ++s) {
    const int64_t k = 2 * p + s;
    const int low = (scales[k % 8] >> (4 * (k / 8))) & 15;
    const int high = (scales[8 + k % 4] >> (2 * (k / 4))) & 3;
    out.scale[static_cast<size_t>(s)] = d * static_cast<float>((low | high << 4) - 32);
  }
  out.fill([&](int64_t i) { return two_bits(block + 32, p, i) - 4 * (1 - bit(block[i], p)); });
}

// Scale and minimum of piece p of Q4_K and Q5_K, 6 bits each: those of pieces 0-3 in the low 6 bits of bytes 0-3 and
// 4-7, of pieces 4-7 in the halves of bytes 8-11 with their high 2 bits on top of bytes 0-7.
void set_scale_and_minimum(const uint8_t* block, int64_t p, Piece& out) {
  const uint8_t* packed = block + 4;
  int scale = packed[p % 4] & 63;
  int minimum = packed[4 + p % 4] & 63;
  if (p >= 4) {
    scale = (packed[4 + p] & 15) | (packed[p - 4] >> 6) << 4;
    minimum = packed[4 + p] >> 4 | (packed[p] >> 6) << 4;
  }
  out.set_scale(half_at(block) * static_cast<float>(scale));
  out.set_offset(-(half_at(block + 2) * static_cast<float>(minimum)));
}

// d, dmin, 12 bytes of scales and minima, codes
void decode_q4_k(const DTypeInfo&, const uint8_t* block, int64_t p, Piece& out) {
  set_scale_and_minimum(block, p, out);
  out.fill([&](int64_t i) { return four_bits(block + 16, p, i); });
}

// d, dmin, 12 bytes of scales and minima, 32 bytes of fifth bits (of piece p in bit p), codes
void decode_q5_k(const DTypeInfo&, const uint8_t* block, int64_t p, Piece& out) {
  set_scale_and_minimum(block, p, out);
  out.fill([&](int64_t i) { return four_bits(block + 48, p, i) | bit(block[16 + i], p) << 4; });
}

// Low 4 bits of the codes, high 2 bits, 16 signed scales, d. The low bits of pieces 0-3 lie in 64 bytes: 0 and 1 in the
// low halves of bytes 0-31 and 32-63, 2 and 3 in the high ones; pieces 4-7 likewise behind them.
void decode_q6_k(const DTypeInfo&, const uint8_t* block, int64_t p, Piece& out) {
  const uint8_t* low = block + 64 * (p / 4) + 32 * (p % 2);
  const int64_t shift = 4 * (p % 4 / 2);
  const float d = half_at(block + 208);
  for (int64_t s = 0; s < 2; ++s) {
    out.scale[static_cast<size_t>(s)] = d * static_cast<float>(static_cast<int8_t>(block[192 + 2 * p + s]));
  }
  out.fill([&](int64_t i) { return (((low[i] >> shift) & 15) | two_bits(block + 128, p, i) << 4) - 32; });
}

// d, high 2 bits of 8 scales, low 4 bits of 8 scales, codes as in blocks of 32
void decode_iq4_xs(const DTypeInfo&, const uint8_t* block, int64_t p, Piece& out) {
  const int high = (load<uint16_t>(block + 2) >> (2 * p)) & 3;
  const int low = (block[4 + p / 2] >> (4 * (p % 2))) & 15;
  out.set_scale(half_at(block) * static_cast<float>((low | high << 4) - 32));
  out.fill([&](int64_t i) { return kIq4[static_cast<size_t>(nibble(block + 8 + 16 * p, i))]; });
}

// ---- MLX: a stream of codes of kBits ----

// Code i of a stream: bits [i * kBits, (i + 1) * kBits), which lie in one byte or two.
template <int kBits>
int stream_code(const uint8_t* stream, int64_t i) {
  const int64_t byte = i * kBits / 8;
  const int64_t shift = i * kBits % 8;
  const int first = stream[byte] >> shift;
  if constexpr (8 % kBits == 0) return first & ((1 << kBits) - 1);
  const int next = shift + kBits > 8 ? stream[byte + 1] << (8 - shift) : 0;
  return (first | next) & ((1 << kBits) - 1);
}

template <int kBits>
void decode_affine(const DTypeInfo& format, const uint8_t* block, int64_t p, Piece& out) {
  const MlxBlock& mlx = *format.mlx;
  const auto* stored = reinterpret_cast<const std::byte*>(block);
  out.set_scale(plain_element(mlx.scales, stored, 0));
  out.set_offset(plain_element(mlx.scales, stored, 1));
  const uint8_t* codes = block + mlx.codes_at() + p * kPiece * kBits / 8;
  out.fill([&](int64_t i) { return stream_code<kBits>(codes, i); });
}

void decode_mlx_mxfp4(const DTypeInfo&, const uint8_t* block, int64_t, Piece& out) {
  out.set_scale(float_from_e8m0(block[0]));
  out.fill([&](int64_t i) { return kE2m1[static_cast<size_t>(stream_code<4>(block + 1, i))]; });
}

void decode_mlx_mxfp8(const DTypeInfo&, const uint8_t* block, int64_t, Piece& out) {
  out.set_scale(float_from_e8m0(block[0]));
  out.fill([&](int64_t i) { return kE4m3[block[1 + i]]; });
}

void decode_mlx_nvfp4(const DTypeInfo&, const uint8_t* block, int64_t, Piece& out) {
  out.set_scale(kE4m3[block[0]]);
  out.fill<16>([&](int64_t i) { return kE2m1[static_cast<size_t>(stream_code<4>(block + 1, i))]; });
}

// ---- all of them ----

// Codes, scales and offsets of piece p of a block.
using Decode = void (*)(const DTypeInfo& format, const uint8_t* block, int64_t p, Piece& out);

Decode affine_decoder(int bits) {
  switch (bits) {
    case 2:
      return decode_affine<2>;
    case 3:
      return decode_affine<3>;
    case 4:
      return decode_affine<4>;
    case 5:
      return decode_affine<5>;
    case 6:
      return decode_affine<6>;
    default:
      assert(bits == 8);
      return decode_affine<8>;
  }
}

struct NamedDecode {
  DType dtype;
  Decode decode;
};
constexpr std::array kDecoders = {
    NamedDecode{DType::Q4_0, decode_q4_0},          NamedDecode{DType::Q4_1, decode_q4_1},
    NamedDecode{DType::Q5_0, decode_q5_0},          NamedDecode{DType::Q5_1, decode_q5_1},
    NamedDecode{DType::Q8_0, decode_q8_0},          NamedDecode{DType::Q2_K, decode_q2_k},
    NamedDecode{DType::Q3_K, decode_q3_k},          NamedDecode{DType::Q4_K, decode_q4_k},
    NamedDecode{DType::Q5_K, decode_q5_k},          NamedDecode{DType::Q6_K, decode_q6_k},
    NamedDecode{DType::IQ4_NL, decode_iq4_nl},      NamedDecode{DType::IQ4_XS, decode_iq4_xs},
    NamedDecode{DType::MXFP4, decode_mxfp4},        NamedDecode{DType::MlxMxfp4, decode_mlx_mxfp4},
    NamedDecode{DType::MlxMxfp8, decode_mlx_mxfp8}, NamedDecode{DType::MlxNvfp4, decode_mlx_nvfp4},
};

Decode decoder_of(const DTypeInfo& format) {
  if (format.dtype >= DType::MlxAffine) return affine_decoder(format.mlx->bits);
  const auto index = static_cast<size_t>(format.dtype) - static_cast<size_t>(kDecoders.front().dtype);
  assert(kDecoders[index].dtype == format.dtype);
  return kDecoders[index].decode;
}

bool is_plain(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

}  // namespace

float plain_element(DType dtype, const std::byte* row, int64_t i) {
  assert(is_plain(dtype));
  if (dtype == DType::F32) return load<float>(row + 4 * i);
  const auto bits = load<uint16_t>(row + 2 * i);
  return dtype == DType::F16 ? float_from_half(bits) : float_from_bfloat(bits);
}

void dequantize_stored(DType dtype, const std::byte* row, int64_t first, int64_t count, float* out) {
  if (is_plain(dtype)) {
    for (int64_t i = 0; i < count; ++i) out[i] = plain_element(dtype, row, first + i);
    return;
  }
  const DTypeInfo& format = info(dtype);
  const Decode decode = decoder_of(format);
  const int64_t piece_elements = std::min(kPiece, format.block_elements);
  const auto* block = reinterpret_cast<const uint8_t*>(row) + first / format.block_elements * format.block_bytes;
  int64_t at = first % format.block_elements;
  while (count > 0) {
    Piece piece;
    decode(format, block, at / piece_elements, piece);
    std::array<float, kPiece> values;
    for (size_t s = 0; s < static_cast<size_t>(piece_elements / kScaled); ++s) {
      for (size_t i = s * kScaled; i < (s + 1) * kScaled; ++i) {
        values[i] = piece.scale[s] * piece.code[i] + piece.offset[s];
      }
    }
    const int64_t skip = at % piece_elements;
    const int64_t here = std::min(count, piece_elements - skip);
    std::memcpy(out, values.data() + skip, static_cast<size_t>(here) * sizeof(float));
    out += here;
    count -= here;
    at += here;
    if (at == format.block_elements) {
      at = 0;
      block += format.block_bytes;
    }
  }
}

void store_floats(DType dtype, const float* in, std::byte* out, int64_t count) {
  assert(is_plain(dtype));
  if (dtype == DType::F32) {
    if (count > 0) std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = dtype == DType::F16 ? half_from_float(in[i]) : bfloat_from_float(in[i]);
    std::memcpy(out + 2 * i, &bits, sizeof(bits));
  }
}

}  // namespace lockstep
