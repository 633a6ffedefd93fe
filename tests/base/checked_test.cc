// Checked arithmetic at the edges of 64 bits, and buffers that rely on it.
#include "base/checked.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <new>

#include "base/aligned_buffer.h"
#include "base/function_ref.h"

namespace lockstep {
namespace {

TEST(Checked, FindsOverflow) {
  EXPECT_EQ(checked_mul(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1), (UINT64_C(1) << 32) * ((UINT64_C(1) << 32) - 1));
  EXPECT_EQ(checked_mul(UINT64_C(1) << 32, UINT64_C(1) << 32), std::nullopt);
}

TEST(Checked, Rounds) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(5, 4), 2);
  EXPECT_EQ(round_up(5, 4), 8);
  EXPECT_EQ(round_up(8, 4), 8);
}

TEST(AlignedBuffer, IsAlignedAndZero) {
  AlignedBuffer<float> buffer(1001);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  EXPECT_EQ(buffer.bytes(), 4004u);
  for (const float value : buffer.span()) ASSERT_EQ(value, 0.0f);
  EXPECT_EQ(AlignedBuffer<float>(0).data(), nullptr);
}

TEST(AlignedBuffer, RefusesSizesThatNoMemoryHolds) {
  EXPECT_THROW(AlignedBuffer<double>(SIZE_MAX / 2), std::bad_alloc);
  EXPECT_THROW(AlignedBuffer<std::byte>(SIZE_MAX - 10), std::bad_alloc);
}

TEST(FunctionRef, CallsTheObjectItself) {
  int calls = 0;
  auto count = [&calls, local = 0](int by) mutable {
    local += by;
    calls = local;
    return local;
  };
  const FunctionRef<int(int)> ref = count;
  EXPECT_EQ(ref(2), 2);
  EXPECT_EQ(ref(3), 5);
  EXPECT_EQ(count(1), 6);
  EXPECT_EQ(calls, 6);
}

}  // namespace
}  // namespace lockstep
