// Kernels of recurrent layers, in plain C++ for every instruction set.
#include <cmath>

#include "kernels/tables.h"

namespace lockstep {

void plain_sigmoid_mul(const float* gate, const float* x, float* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] / (1 + std::exp(-gate[i]));
}

void plain_delta_step(const DeltaStepArgs& args) {
  const int64_t width = args.key_dim;
  for (int64_t value = 0; value < args.value_dim; ++value) {
    float* state = args.state + value * width;
    float known = 0;
    for (int64_t i = 0; i < width; ++i) {
      state[i] *= args.keep;
      known += state[i] * args.k[i];
    }
    const float change = (args.v[value] - known) * args.write;
    float read = 0;
    for (int64_t i = 0; i < width; ++i) {
      state[i] += args.k[i] * change;
      read += state[i] * args.q[i];
    }
    args.out[value] = read;
  }
}

}  // namespace lockstep
