// One run of `lockstep verify`: the checked sequence through an engine of one shape, alone or among others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "cli/model_files.h"
#include "engine/engine.h"

namespace lockstep {

inline constexpr int64_t kVerifyDecodes = 8;  // tokens decoded greedily after the prompt

// What runs may differ in.
struct RunShape {
  int tp_size = 1;
  std::vector<double> shares;  // [tp_size], or empty for equal shares
  int64_t chunk = 0;           // prompt rows of a step; 0: all
  int64_t batch = 1;           // sequences submitted together
  int threads = 1;             // of each rank
};

// The slot of the checked sequence: others are admitted before and after it.
inline int64_t checked_slot(const RunShape& shape) {
  return shape.batch / 2;
}

struct RunOutcome {
  std::vector<TokenId> tokens;  // decoded
  std::string sha256;           // of all logits rows, prompt and decode
};

// Looks on during a run.
struct RunObserver {
  bool every_leaf = false;
  std::vector<Recorder*> recorders;                                                // [ranks] or empty
  std::function<void(int64_t position, std::span<const float> logits)> on_logits;  // may be empty
};

// What is equal for all runs.
struct RunSetup {
  const Model& model;
  const Flags& flags;
  std::vector<TokenId> prompt;
  int64_t context = 0;
};

// The plan of a shape under the flags' modes. Throws Error(DoesNotFit | Usage).
PlanOptions plan_of(const RunShape& shape, const Flags& flags);

// Loads an engine, runs, and ends it.
RunOutcome run_once(const RunSetup& setup, const RunShape& shape, const RunObserver& observer);

}  // namespace lockstep
