// Where two runs of `lockstep verify` part: the first intermediate result that differs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/verify_run.h"

namespace lockstep {

struct FirstDifference {
  int64_t layer = -1;  // -1: outside the layers
  std::string tensor;  // the weight whose product differs
  int rank = 0;        // of the differing run: who computed it
  int64_t position = 0;
  int64_t unit = 0;  // a query head, a KV head or a leaf; a rank's whole share of the logits
};

// Repeats both runs and compares what each rank computes of the checked sequence, leaf by leaf. Nothing when the
// difference does not show again.
std::optional<FirstDifference> find_first_difference(const RunSetup& setup, const RunShape& base,
                                                     const RunShape& differing);

}  // namespace lockstep
