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

// Random stored bytes of `blocks` blocks (elements of a plain format); every scale and element is of ordinary size.
inline std::vector<std::byte> random_blocks(std::mt19937& rng, DType dtype, int64_t blocks) {
  const DTypeInfo& format = info(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(blocks * format.block_bytes));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng());
  const auto set_half = [&](int64_t at, uint16_t keep, uint16_t exponent) {
    uint16_t half;
    std::memcpy(&half, &bytes[at], 2);
    half = static_cast<uint16_t>((half & keep) | exponent);
    std::memcpy(&bytes[at], &half, 2);
  };
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t at = i * format.block_bytes;
    if (dtype == DType::F32 || dtype == DType::BF16) {
      set_half(at + format.block_bytes - 2, 0x807f, 0x3f00);  // 0.5 to 1
    } else {
      set_half(at, 0x83ff, 0x2c00);  // 2^-4 to 2^-3
      if (dtype == DType::Q4_1 || dtype == DType::Q5_1) set_half(at + 2, 0x83ff, 0x3800);
    }
  }
  return bytes;
}

}  // namespace lockstep
