// Stored numbers to floats and back, against the `gguf` package, MLX and NumPy: to the last bit, whole rows and any
// part.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "kernels/kernels_fixture.h"

namespace lockstep {
namespace {

constexpr int64_t kRows = 2;  // as in versions.json
constexpr int64_t kCols = 512;

struct Stored {
  std::vector<std::byte> blocks;  // [kRows, kCols] in the bytes of the format
  std::vector<float> floats;      // the same by the oracle
};

// The fixture of every format, by its name.
std::map<std::string, Stored> stored_formats() {
  const auto names = read_fixture<char>("formats.txt");
  const auto blocks = read_fixture<std::byte>("formats.blocks");
  const auto floats = read_fixture<float>("formats.floats");
  std::map<std::string, Stored> formats;
  auto block = blocks.begin();
  auto value = floats.begin();
  std::string name;
  for (const char letter : names) {
    if (letter != '\n') {
      name += letter;
      continue;
    }
    const auto* format = std::find_if(dtype_table().data(), dtype_table().data() + dtype_table().size(),
                                      [&](const DTypeInfo& entry) { return entry.name == name; });
    if (format == dtype_table().data() + dtype_table().size()) {
      ADD_FAILURE() << "no format is called " << name;
      return formats;
    }
    const int64_t bytes = kRows * row_bytes(format->dtype, kCols);
    if (blocks.end() - block < bytes || floats.end() - value < kRows * kCols) {
      ADD_FAILURE() << "the fixture ends before " << name;
      return formats;
    }
    formats[name] = {{block, block + bytes}, {value, value + kRows * kCols}};
    block += bytes;
    value += kRows * kCols;
    name.clear();
  }
  EXPECT_TRUE(block == blocks.end() && value == floats.end());
  return formats;
}

// Bits with one NaN for all of them: which one a product gives is the processor's matter.
std::vector<uint32_t> values_of(std::vector<float> values) {
  for (float& value : values) {
    if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
  }
  return bits_of(values);
}

using Dequantize = EveryIsa;

TEST_P(Dequantize, WholeRowsEqualTheOracle) {
  auto formats = stored_formats();
  EXPECT_EQ(formats.size(), dtype_table().size());
  for (const DTypeInfo& format : dtype_table()) {
    SCOPED_TRACE(format.name);
    const Stored& stored = formats[std::string(format.name)];
    ASSERT_FALSE(stored.blocks.empty());
    const int64_t stride = row_bytes(format.dtype, kCols);
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<float> out(kCols);
      kernels().dequantize(format.dtype, stored.blocks.data() + row * stride, 0, kCols, out.data());
      const auto* expected = stored.floats.data() + row * kCols;
      EXPECT_EQ(values_of(out), values_of({expected, expected + kCols})) << "row " << row;
    }
  }
}

TEST_P(Dequantize, AnyRangeEqualsTheOracle) {
  auto formats = stored_formats();
  for (const DTypeInfo& format : dtype_table()) {
    SCOPED_TRACE(format.name);
    const Stored& stored = formats[std::string(format.name)];
    ASSERT_FALSE(stored.blocks.empty());
    // Just the blocks of each range, so that a sanitizer sees a read of anything else.
    for (int64_t first = 0; first < 280; first += first < 36 ? 1 : 7) {
      for (const int64_t count : {0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 220}) {
        const int64_t used = (first + count + format.block_elements - 1) / format.block_elements;
        const std::vector<std::byte> row(stored.blocks.begin(), stored.blocks.begin() + used * format.block_bytes);
        std::vector<float> out(static_cast<size_t>(count));
        kernels().dequantize(format.dtype, row.data(), first, count, out.data());
        const auto* expected = stored.floats.data() + first;
        ASSERT_EQ(values_of(out), values_of({expected, expected + count})) << first << " + " << count;
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
