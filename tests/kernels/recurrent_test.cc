// Kernels of recurrent layers against the formulas in double.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/kernels.h"

namespace lockstep {
namespace {

std::vector<float> numbers(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(Recurrent, SigmoidMul) {
  const std::vector<float> gate = numbers(37, 1), x = numbers(37, 2);
  for (const Kernels* kernels : supported_kernels()) {
    std::vector<float> out(37);
    kernels->sigmoid_mul(gate.data(), x.data(), out.data(), 37);
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(out[i], x[i] / (1 + std::exp(-double{gate[i]})), 1e-6) << kernels->isa;
    }
  }
}

// Two tokens, since the second shows what the first has left in the state.
TEST(Recurrent, DeltaStep) {
  constexpr int64_t kKey = 5, kValue = 3;
  for (const Kernels* kernels : supported_kernels()) {
    std::vector<float> state = numbers(kKey * kValue, 3);
    std::vector<double> expected(state.begin(), state.end());
    for (uint32_t token = 0; token < 2; ++token) {
      const std::vector<float> q = numbers(kKey, 10 + token), k = numbers(kKey, 20 + token),
                               v = numbers(kValue, 30 + token);
      std::vector<float> out(kValue);
      DeltaStepArgs args;
      args.state = state.data();
      args.key_dim = kKey;
      args.value_dim = kValue;
      args.q = q.data();
      args.k = k.data();
      args.v = v.data();
      args.keep = 0.7F;
      args.write = 0.4F;
      args.out = out.data();
      kernels->delta_step(args);
      for (size_t row = 0; row < kValue; ++row) {
        double known = 0, read = 0;
        for (size_t i = 0; i < kKey; ++i) known += 0.7 * expected[row * kKey + i] * k[i];
        for (size_t i = 0; i < kKey; ++i) {
          double& element = expected[row * kKey + i];
          element = 0.7 * element + (v[row] - known) * 0.4 * k[i];
          read += element * q[i];
          EXPECT_NEAR(state[row * kKey + i], element, 1e-5) << kernels->isa;
        }
        EXPECT_NEAR(out[row], read, 1e-5) << kernels->isa;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
