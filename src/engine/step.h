// What rank 0 tells the others once a step: a flat message of fixed layout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/comm.h"
#include "decoder/decoder.h"

namespace lockstep {

// Entry `index` of a sequence's page table becomes `page`, before the rows run.
struct PageAssignment {
  int32_t sequence = 0;
  int32_t index = 0;
  int32_t page = 0;
};

struct StepRows {
  std::vector<int32_t> tokens, positions, sequences;  // [rows]
  std::vector<int32_t> logit_rows;                    // ascending
  std::vector<PageAssignment> pages;
  void clear();
  Batch batch() const { return {tokens, positions, sequences, logit_rows}; }
};

// Bounds that every rank knows; a message outside them is refused.
struct StepLimits {
  int64_t max_rows = 0, max_sequences = 0, pages = 0, pages_per_sequence = 0, vocab = 0;
};

// One rank's end of the step message. After construction nothing is allocated. The leader's thread only.
class StepChannel {
 public:
  StepChannel(Group& group, const StepLimits& limits);

  // On rank 0: tells the others to run `rows` as step `step`, or to shut down.
  void send(int64_t step, const StepRows& rows);
  void send_shutdown();
  // On the others: fills `rows` and `step`; false means shutdown. Throws Error(Internal) for a version, a step id that
  // does not follow the last, or an entry outside the limits, with both values.
  bool receive(int64_t& step, StepRows& rows);

 private:
  Group& group_;
  const StepLimits limits_;
  int64_t last_step_ = -1;
  std::vector<int32_t> words_;
};

}  // namespace lockstep
