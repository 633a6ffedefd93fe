// The slices of one rank, as the plan prescribes them.
#pragma once

#include <array>
#include <atomic>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/team.h"
#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "kernels/kernels.h"
#include "plan/plan.h"

namespace lockstep {

// Output columns of a product that a thread takes at a time. A matrix is loaded in the same portions as it is
// multiplied, so that its pages lie on the memory node of the thread that reads them.
inline constexpr int64_t kTileCols = 64;

// One weight of one rank. A matrix keeps its stored bytes; a vector is held as floats.
struct Weight {
  WeightMatrix matrix;               // of a matrix; rows == 0 when this rank holds none of it
  const float* vector = nullptr;     // of a vector, [matrix.rows]
  const TensorPlan* plan = nullptr;  // nullptr when the model has no such weight
  AlignedBuffer<std::byte> bytes;
  AlignedBuffer<float> floats;
};

// All weights of one rank. Immutable after loading.
class Weights {
 public:
  // Reads this rank's byte ranges from the checkpoint with the team's threads, so that each page is first touched by
  // the thread that will use it. `group` is ticked as bytes arrive; `loaded_bytes` (may be null) grows.
  Weights(const ModelSpec& spec, const ShardPlan& plan, int rank, const Checkpoint& checkpoint, const Kernels& kernels,
          Group& group, Team& team, std::atomic<int64_t>* loaded_bytes);

  // layer -1: outside the layers.
  const Weight& get(Role role, int64_t layer = -1) const {
    return weights_[static_cast<size_t>(layer + 1)][static_cast<size_t>(role)];
  }
  int64_t bytes() const { return bytes_; }
  int64_t read_bytes() const { return read_bytes_; }

 private:
  std::vector<std::array<Weight, kRoles>> weights_;  // [layers + 1]
  int64_t bytes_ = 0;
  int64_t read_bytes_ = 0;
};

}  // namespace lockstep
