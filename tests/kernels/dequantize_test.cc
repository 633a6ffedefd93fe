// Stored numbers to floats and back, against the `gguf` package and NumPy: to the last bit, whole rows and any part.
#include "kernels/kernels_fixture.h"

namespace lockstep {
namespace {

constexpr int64_t kRows = 3;  // as in versions.json
constexpr int64_t kCols = 320;

using Dequantize = EveryIsa;

TEST_P(Dequantize, WholeRowsEqualTheOracle) {
  for (const DTypeInfo& format : dtype_table()) {
    SCOPED_TRACE(format.name);
    const auto blocks = read_fixture<std::byte>(std::string(format.name) + ".blocks");
    const auto expected = read_fixture<float>(std::string(format.name) + ".floats");
    const int64_t stride = row_bytes(format.dtype, kCols);
    ASSERT_EQ(static_cast<int64_t>(blocks.size()), kRows * stride);
    ASSERT_EQ(static_cast<int64_t>(expected.size()), kRows * kCols);
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<float> out(kCols);
      kernels().dequantize(format.dtype, blocks.data() + row * stride, 0, kCols, out.data());
      EXPECT_EQ(bits_of(out), bits_of(expected.data() + row * kCols, kCols)) << "row " << row;
    }
  }
}

TEST_P(Dequantize, AnyRangeEqualsTheOracle) {
  for (const DTypeInfo& format : dtype_table()) {
    SCOPED_TRACE(format.name);
    const auto blocks = read_fixture<std::byte>(std::string(format.name) + ".blocks");
    const auto expected = read_fixture<float>(std::string(format.name) + ".floats");
    // Just the blocks of each range, so that a sanitizer sees a read of anything else.
    for (int64_t first = 0; first < 100; ++first) {
      for (const int64_t count : {0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 220}) {
        const int64_t used = (first + count + format.block_elements - 1) / format.block_elements;
        const std::vector<std::byte> row(blocks.begin(), blocks.begin() + used * format.block_bytes);
        std::vector<float> out(static_cast<size_t>(count));
        kernels().dequantize(format.dtype, row.data(), first, count, out.data());
        ASSERT_EQ(bits_of(out), bits_of(expected.data() + first, count)) << first << " + " << count;
      }
    }
  }
}

using FromFloat = EveryIsa;

TEST_P(FromFloat, EqualsTheOracle) {
  const auto values = read_fixture<float>("round.floats");
  for (const auto& [dtype, name] : {std::pair{DType::F16, "round.f16"}, std::pair{DType::BF16, "round.bf16"}}) {
    SCOPED_TRACE(name);
    const auto expected = read_fixture<uint16_t>(name);
    ASSERT_EQ(values.size(), expected.size());
    std::vector<uint16_t> out(values.size());
    kernels().from_float(dtype, values.data(), reinterpret_cast<std::byte*>(out.data()),
                         static_cast<int64_t>(values.size()));
    EXPECT_EQ(out, expected);
    for (size_t i = 0; i < values.size(); ++i) {  // the same alone
      uint16_t alone = 0;
      kernels().from_float(dtype, &values[i], reinterpret_cast<std::byte*>(&alone), 1);
      ASSERT_EQ(alone, expected[i]) << values[i];
    }
  }
}

TEST_P(FromFloat, FloatsAreCopied) {
  const auto values = read_fixture<float>("round.floats");
  std::vector<float> out(values.size());
  kernels().from_float(DType::F32, values.data(), reinterpret_cast<std::byte*>(out.data()),
                       static_cast<int64_t>(values.size()));
  EXPECT_EQ(bits_of(out), bits_of(values));
}

INSTANTIATE_TEST_SUITE_P(Isa, Dequantize, testing::ValuesIn(supported_kernels()), isa_name);
INSTANTIATE_TEST_SUITE_P(Isa, FromFloat, testing::ValuesIn(supported_kernels()), isa_name);

}  // namespace
}  // namespace lockstep
