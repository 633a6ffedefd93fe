// The table of formats. Ids and block sizes of GGUF follow its specification (ggml, docs/gguf.md); modes, groups and
// bits of MLX follow the documentation of mlx.core.quantize.
#include "tensor/dtype.h"

#include <algorithm>
#include <cassert>

namespace lockstep {
namespace {

using D = DType;

constexpr std::array kNamed = {
    DTypeInfo{D::F32, "F32", 1, 4, 0},
    DTypeInfo{D::F16, "F16", 1, 2, 1},
    DTypeInfo{D::BF16, "BF16", 1, 2, 30},
    DTypeInfo{D::Q4_0, "Q4_0", 32, 18, 2},
    DTypeInfo{D::Q4_1, "Q4_1", 32, 20, 3},
    DTypeInfo{D::Q5_0, "Q5_0", 32, 22, 6},
    DTypeInfo{D::Q5_1, "Q5_1", 32, 24, 7},
    DTypeInfo{D::Q8_0, "Q8_0", 32, 34, 8},
    DTypeInfo{D::Q2_K, "Q2_K", 256, 84, 10},
    DTypeInfo{D::Q3_K, "Q3_K", 256, 110, 11},
    DTypeInfo{D::Q4_K, "Q4_K", 256, 144, 12},
    DTypeInfo{D::Q5_K, "Q5_K", 256, 176, 13},
    DTypeInfo{D::Q6_K, "Q6_K", 256, 210, 14},
    DTypeInfo{D::IQ4_NL, "IQ4_NL", 32, 18, 20},
    DTypeInfo{D::IQ4_XS, "IQ4_XS", 256, 136, 23},
    DTypeInfo{D::MXFP4, "MXFP4", 32, 17, 39},
    DTypeInfo{D::MlxMxfp4, "MLX mxfp4", 32, 17, {}, MlxBlock{MlxMode::Mxfp4, 4, D::F32, 1, 0}},
    DTypeInfo{D::MlxMxfp8, "MLX mxfp8", 32, 33, {}, MlxBlock{MlxMode::Mxfp8, 8, D::F32, 1, 0}},
    DTypeInfo{D::MlxNvfp4, "MLX nvfp4", 16, 9, {}, MlxBlock{MlxMode::Nvfp4, 4, D::F32, 1, 0}},
};
static_assert(kNamed.size() == static_cast<size_t>(D::MlxAffine));

constexpr size_t kAffine = kMlxAffineBits.size() * kMlxAffineGroups.size() * kMlxAffineScales.size();
static_assert(kNamed.size() + kAffine <= 256, "a DType is one byte");

// The affine format of place i: bits slowest, the type of the scales fastest.
struct Affine {
  int bits, group;
  D scales;
};
constexpr Affine affine_at(size_t i) {
  const size_t per_bits = kMlxAffineGroups.size() * kMlxAffineScales.size();
  return {kMlxAffineBits[i / per_bits], kMlxAffineGroups[i % per_bits / kMlxAffineScales.size()],
          kMlxAffineScales[i % kMlxAffineScales.size()]};
}

struct Name {
  std::array<char, 24> letters{};
  size_t size = 0;
  constexpr void add(std::string_view text) {
    for (const char c : text) letters[size++] = c;
  }
  constexpr void add(int number) {
    if (number >= 10) add(number / 10);
    letters[size++] = static_cast<char>('0' + number % 10);
  }
  constexpr std::string_view view() const { return {letters.data(), size}; }
};

constexpr auto kAffineNames = [] {
  std::array<Name, kAffine> names{};
  for (size_t i = 0; i < kAffine; ++i) {
    const auto [bits, group, scales] = affine_at(i);
    names[i].add("MLX affine");
    names[i].add(bits);
    names[i].add("/");
    names[i].add(group);
    names[i].add(" ");
    names[i].add(kNamed[static_cast<size_t>(scales)].name);
  }
  return names;
}();

constexpr auto kTable = [] {
  std::array<DTypeInfo, kNamed.size() + kAffine> table{};
  std::copy(kNamed.begin(), kNamed.end(), table.begin());
  for (size_t i = 0; i < kAffine; ++i) {
    const auto [bits, group, scales] = affine_at(i);
    const int64_t scale_bytes = kNamed[static_cast<size_t>(scales)].block_bytes;
    const size_t at = kNamed.size() + i;
    table[at] = {static_cast<D>(at),
                 kAffineNames[i].view(),
                 group,
                 2 * scale_bytes + group * bits / 8,
                 std::nullopt,
                 MlxBlock{MlxMode::Affine, bits, scales, scale_bytes, scale_bytes}};
  }
  return table;
}();

constexpr bool in_order() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<size_t>(kTable[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_order(), "info() indexes the table by the enumeration");

}  // namespace

std::span<const DTypeInfo> dtype_table() {
  return kTable;
}

const DTypeInfo& info(DType dtype) {
  return kTable[static_cast<size_t>(dtype)];
}

std::optional<DType> dtype_from_ggml(uint32_t ggml_type) {
  for (const auto& entry : kTable) {
    if (entry.ggml_type == ggml_type) return entry.dtype;
  }
  return std::nullopt;
}

std::optional<DType> mlx_dtype(MlxMode mode, int bits, int group, DType scales) {
  for (const auto& entry : kTable) {
    if (!entry.mlx || entry.mlx->mode != mode || entry.mlx->bits != bits || entry.block_elements != group) continue;
    if (mode != MlxMode::Affine || entry.mlx->scales == scales) return entry.dtype;
  }
  return std::nullopt;
}

int64_t row_bytes(DType dtype, int64_t elements) {
  const auto& format = info(dtype);
  assert(elements % format.block_elements == 0);
  return elements / format.block_elements * format.block_bytes;
}

}  // namespace lockstep
