// Row-wise and element-wise kernels: right, by double precision; and no element depends on where in a call it stands.
#include <algorithm>
#include <cmath>

#include "kernels/kernels_fixture.h"

namespace lockstep {
namespace {

using Rows = EveryIsa;

TEST_P(Rows, RmsNormIsNearDoublePrecision) {
  std::mt19937 rng(1);
  for (const int64_t width : {1, 7, 16, 37, 64, 100, 576, 1000}) {
    const int64_t rows = 3;
    const auto x = random_floats(rng, rows * width);
    const auto weight = random_floats(rng, width);
    std::vector<float> out(x.size());
    kernels().rms_norm(x.data(), weight.data(), out.data(), rows, width, 1e-5f);
    for (int64_t row = 0; row < rows; ++row) {
      double squares = 0;
      for (int64_t i = 0; i < width; ++i) squares += double{x[row * width + i]} * double{x[row * width + i]};
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
      for (int64_t i = 0; i < width; ++i) {
        const double expected = double{x[row * width + i]} * scale * double{weight[i]};
        ASSERT_NEAR(out[row * width + i], expected, 2e-6 * std::abs(expected)) << "width " << width;
      }
      std::vector<float> alone(x.begin() + row * width, x.begin() + (row + 1) * width);
      kernels().rms_norm(alone.data(), weight.data(), alone.data(), 1, width, 1e-5f);  // in place
      EXPECT_EQ(bits_of(alone), bits_of(out.data() + row * width, width));
    }
  }
}

TEST_P(Rows, RopeRotatesEachPair) {
  std::mt19937 rng(2);
  for (const RopePairs pairs : {RopePairs::Adjacent, RopePairs::Halves}) {
    for (const auto& [head_dim, rotary] :
         std::vector<std::pair<int64_t, int64_t>>{{8, 8}, {64, 64}, {80, 20}, {100, 70}}) {
      const int64_t heads = 3;
      const auto before = random_floats(rng, heads * head_dim);
      std::vector<float> angles(static_cast<size_t>(rotary));
      for (int64_t i = 0; i < rotary / 2; ++i) {
        angles[2 * i] = std::cos(0.3f * static_cast<float>(i + 1));
        angles[2 * i + 1] = std::sin(0.3f * static_cast<float>(i + 1));
      }
      auto after = before;
      kernels().rope(after.data(), heads, head_dim, rotary, angles.data(), pairs);
      std::vector<double> expected(before.begin(), before.end());
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t i = 0; i < rotary / 2; ++i) {
          const int64_t a = head * head_dim + (pairs == RopePairs::Adjacent ? 2 * i : i);
          const int64_t b = pairs == RopePairs::Adjacent ? a + 1 : a + rotary / 2;
          const double c = angles[2 * i];
          const double s = angles[2 * i + 1];
          expected[a] = before[a] * c - before[b] * s;
          expected[b] = before[a] * s + before[b] * c;
        }
      }
      for (size_t i = 0; i < after.size(); ++i) ASSERT_NEAR(after[i], expected[i], 1e-6) << head_dim << " " << rotary;
      for (int64_t head = 0; head < heads; ++head) {
        std::vector<float> alone(before.begin() + head * head_dim, before.begin() + (head + 1) * head_dim);
        kernels().rope(alone.data(), 1, head_dim, rotary, angles.data(), pairs);
        EXPECT_EQ(bits_of(alone), bits_of(after.data() + head * head_dim, head_dim));
      }
    }
  }
}

TEST_P(Rows, SiluMul) {
  std::mt19937 rng(3);
  auto gate = random_floats(rng, 101);
  const auto up = random_floats(rng, 101);
  const std::vector<float> edges = {0.0f, -0.0f, 20, -20, 87, -87, 88.8f, -88.8f, 104, -104, 1e37f, -1e37f};
  std::copy(edges.begin(), edges.end(), gate.begin() + 40);
  std::vector<float> out(gate.size());
  kernels().silu_mul(gate.data(), up.data(), out.data(), static_cast<int64_t>(gate.size()));
  for (size_t i = 0; i < gate.size(); ++i) {
    const double expected = double{gate[i]} / (1 + std::exp(-double{gate[i]})) * double{up[i]};
    EXPECT_NEAR(out[i], expected, 1e-6 * std::abs(expected) + 1e-34) << gate[i];
    float alone = gate[i];
    kernels().silu_mul(&alone, &up[i], &alone, 1);  // in place
    EXPECT_EQ(std::bit_cast<uint32_t>(alone), std::bit_cast<uint32_t>(out[i])) << gate[i];
  }
}

// 0.5 x (1 + tanh u) as x / (1 + exp(-2 u)), which a double holds for any u; an error of u counts |u| times.
TEST_P(Rows, GeluMul) {
  std::mt19937 rng(5);
  auto gate = random_floats(rng, 101);
  const auto up = random_floats(rng, 101);
  for (float& x : gate) x *= 2;
  const std::vector<float> edges = {0.0f, -0.0f, 1e-30f, 3, -3, 5, -5, 8, -8, 12, -12, 104, -104, 1e37f, -1e37f};
  std::copy(edges.begin(), edges.end(), gate.begin() + 40);
  std::vector<float> out(gate.size());
  kernels().gelu_mul(gate.data(), up.data(), out.data(), static_cast<int64_t>(gate.size()));
  for (size_t i = 0; i < gate.size(); ++i) {
    const double x = gate[i];
    const double two_u = 2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    const double expected = x / (1 + std::exp(-two_u)) * double{up[i]};
    const double relative = 1e-6 + 4e-7 * std::min(std::abs(two_u), 100.0);
    EXPECT_NEAR(out[i], expected, relative * std::abs(expected) + 1e-34) << gate[i];
    if (std::abs(x) < 3) {
      const double by_tanh = 0.5 * x * (1 + std::tanh(two_u / 2)) * double{up[i]};
      EXPECT_NEAR(out[i], by_tanh, 1e-5 * std::abs(by_tanh)) << gate[i];
    }
    float alone = gate[i];
    kernels().gelu_mul(&alone, &up[i], &alone, 1);  // in place
    EXPECT_EQ(std::bit_cast<uint32_t>(alone), std::bit_cast<uint32_t>(out[i])) << gate[i];
  }
}

TEST_P(Rows, SoftCap) {
  std::mt19937 rng(6);
  for (const float cap : {1.0f, 30.0f, 50.0f}) {
    auto x = random_floats(rng, 101);
    for (float& value : x) value *= cap;
    const std::vector<float> edges = {0.0f, -0.0f, 1e-30f, 1e-3f, -1e-3f, 20 * cap, -20 * cap, 1e37f, -1e37f};
    std::copy(edges.begin(), edges.end(), x.begin() + 40);
    auto out = x;
    kernels().soft_cap(out.data(), cap, static_cast<int64_t>(out.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = double{cap} * std::tanh(double{x[i]} / double{cap});
      EXPECT_NEAR(out[i], expected, 1e-6 * std::abs(expected)) << x[i];
      float alone = x[i];
      kernels().soft_cap(&alone, cap, 1);
      EXPECT_EQ(std::bit_cast<uint32_t>(alone), std::bit_cast<uint32_t>(out[i])) << x[i];
    }
  }
}

TEST_P(Rows, Scale) {
  std::mt19937 rng(7);
  for (const int64_t count : {0, 1, 15, 16, 17, 100}) {
    const auto x = random_floats(rng, count);
    auto out = x;
    kernels().scale(out.data(), 0.3f, count);
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(out[i], x[i] * 0.3f);
  }
}

TEST_P(Rows, Add) {
  std::mt19937 rng(4);
  for (const int64_t count : {0, 1, 15, 16, 17, 100}) {
    const auto x = random_floats(rng, count);
    const auto y = random_floats(rng, count);
    auto out = x;
    kernels().add(out.data(), y.data(), count);
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(out[i], x[i] + y[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Rows, testing::ValuesIn(supported_kernels()), isa_name);

}  // namespace
}  // namespace lockstep
