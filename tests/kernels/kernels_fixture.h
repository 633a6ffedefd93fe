// What the tests of kernels/ share: one run of every test for each table this machine supports, fixture files, and
// random weights of any format.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep {

class EveryIsa : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels() const { return *GetParam(); }
};

inline std::string isa_name(const testing::TestParamInfo<const Kernels*>& info) {
  return std::string(info.param->isa);
}

template <class T>
std::vector<T> read_fixture(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_FIXTURES) + "/dequant/" + name, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  EXPECT_FALSE(bytes.empty()) << name;
  EXPECT_EQ(bytes.size() % sizeof(T), 0u) << name;
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The bits of floats, so that == tells -0 from 0 and a NaN equals itself.
inline std::vector<uint32_t> bits_of(const float* values, int64_t count) {
  std::vector<uint32_t> bits(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) bits[i] = std::bit_cast<uint32_t>(values[i]);
  return bits;
}
inline std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  return bits_of(values.data(), static_cast<int64_t>(values.size()));
}

inline std::vector<float> random_floats(std::mt19937& rng, int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(rng);
  return values;
}

// Random stored bytes of `blocks` blocks (elements of a plain format); every scale and element is of ordinary size, and
// an offset does not drown the codes.
inline std::vector<std::byte> random_blocks(std::mt19937& rng, DType dtype, int64_t blocks) {
  const DTypeInfo& format = info(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(blocks * format.block_bytes));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng());
  // The byte at `at` keeps its bits of `keep`, and gets those of `set`.
  const auto set_byte = [&](int64_t at, int keep, int set) {
    bytes[static_cast<size_t>(at)] &= static_cast<std::byte>(keep);
    bytes[static_cast<size_t>(at)] |= static_cast<std::byte>(set);
  };
  // A number of type `type` (any F16, BF16, F32) of either sign, from 2^-4 to 2^-3 or, large, from 0.5 to 1.
  const auto set_scale = [&](int64_t at, DType type, bool large = false) {
    const int64_t last = at + info(type).block_bytes - 1;
    if (type == DType::F16) return set_byte(last, 0x83, large ? 0x38 : 0x2c);
    set_byte(last, 0x80, large ? 0x3f : 0x3d);
    set_byte(last - 1, 0x7f, large ? 0x00 : 0x80);
  };
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t at = i * format.block_bytes;
    if (format.mlx && format.mlx->mode == MlxMode::Affine) {
      set_scale(at, format.mlx->scales);
      set_scale(at + format.mlx->scale_bytes, format.mlx->scales, true);
      continue;
    }
    switch (dtype) {
      case DType::F32:
      case DType::F16:
      case DType::BF16:
        set_scale(at, dtype, true);
        break;
      case DType::Q4_1:
      case DType::Q5_1:
      case DType::Q4_K:
      case DType::Q5_K:
        set_scale(at, DType::F16);
        set_scale(at + 2, DType::F16, dtype == DType::Q4_1 || dtype == DType::Q5_1);
        break;
      case DType::Q2_K:
        set_scale(at + 80, DType::F16);
        set_scale(at + 82, DType::F16);
        break;
      case DType::Q3_K:
        set_scale(at + 108, DType::F16);
        break;
      case DType::Q6_K:
        set_scale(at + 208, DType::F16);
        break;
      case DType::MXFP4:
      case DType::MlxMxfp4:
        set_byte(at, 3, 124);  // 2^-3 to 1
        break;
      case DType::MlxMxfp8:
        set_byte(at, 3, 116);
        for (int64_t k = 1; k <= 32; ++k) set_byte(at + k, 0xf7, 0);  // no NaN
        break;
      case DType::MlxNvfp4:
        set_byte(at, 0x87, 0x28);
        break;
      default:  // d first
        set_scale(at, DType::F16);
    }
  }
  return bytes;
}

}  // namespace lockstep
