// Element and block formats. A block holds `block_elements` consecutive elements of one row in `block_bytes` bytes.
//
// Formats come from three places: plain numbers, the block formats of GGUF, and the group formats of MLX. MLX keeps the
// codes, scales and biases of a matrix in three tensors; here a group is one block: scale, then bias (affine only),
// then the codes in the bytes MLX stores, a little-endian stream of bits with element k from bit k * bits on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep {

// A value is an index into dtype_table(). The formats of MLX's affine mode are many and have no names of their own:
// they follow MlxAffine, and mlx_dtype() finds them.
enum class DType : uint8_t {
  F32,
  F16,
  BF16,
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q8_0,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
  IQ4_NL,
  IQ4_XS,
  MXFP4,      // as GGUF orders the codes: elements 0-15 in the low halves of 16 bytes
  MlxMxfp4,   // e2m1 codes, an e8m0 scale for 32
  MlxMxfp8,   // e4m3 codes, an e8m0 scale for 32
  MlxNvfp4,   // e2m1 codes, an e4m3 scale for 16
  MlxAffine,  // scale * code + bias: the first of kMlxAffineBits x kMlxAffineGroups x kMlxAffineScales
};

enum class MlxMode : uint8_t { Affine, Mxfp4, Mxfp8, Nvfp4 };

inline constexpr std::array<int, 6> kMlxAffineBits = {2, 3, 4, 5, 6, 8};
inline constexpr std::array<int, 3> kMlxAffineGroups = {32, 64, 128};
inline constexpr std::array<DType, 3> kMlxAffineScales = {DType::F16, DType::BF16, DType::F32};

// What a block of an MLX format is made of; the group is block_elements.
struct MlxBlock {
  MlxMode mode;
  int bits;             // of a code
  DType scales;         // of scale and bias in affine mode; in the other modes a scale is one byte and this is unused
  int64_t scale_bytes;  // the scale lies at byte 0 of the block,
  int64_t bias_bytes;   // the bias behind it (0 where the mode has none), and the codes behind both
  int64_t codes_at() const { return scale_bytes + bias_bytes; }
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;   // as the tools of its format write it: "F32", "Q4_1", "MLX affine4/64 BF16"
  int64_t block_elements;  // 1 for plain formats
  int64_t block_bytes;
  std::optional<uint32_t> ggml_type;  // the id in a GGUF tensor table, where GGUF has the format
  std::optional<MlxBlock> mlx = {};   // the formats of MLX
};

// The whole table, in the order of the enumeration.
std::span<const DTypeInfo> dtype_table();
const DTypeInfo& info(DType dtype);
std::optional<DType> dtype_from_ggml(uint32_t ggml_type);

// The format of an MLX mode, if there is one of `bits` and `group`: affine has those of the arrays above, mxfp4 4 / 32,
// mxfp8 8 / 32, nvfp4 4 / 16. `scales` is the type of affine scales and biases, which is one of kMlxAffineScales; the
// other modes do not look at it.
std::optional<DType> mlx_dtype(MlxMode mode, int bits, int group, DType scales);

// Bytes of a row of `elements`; elements must be a multiple of the block.
int64_t row_bytes(DType dtype, int64_t elements);

}  // namespace lockstep
