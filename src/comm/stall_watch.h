// Finding out, while waiting, whether the wait can ever end.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/local_state.h"

namespace lockstep {

// One waiting rank's view of the others. It follows who waits for whom: a rank that waits is never to blame, whoever it
// waits for may be. Two findings end the group: a rank that computes, but whose progress counter stands still; and
// ranks that all wait for one another. Each must last for the stall limit while this rank waits.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  StallWatch(LocalState& state, int rank);

  // A new wait begins: whatever was seen before no longer counts.
  void restart() { watching_ = false; }

  // To be called now and then during the wait. Returns the cause with which to abort.
  std::optional<std::string> check(Clock::time_point now);

 private:
  struct Seen {
    uint64_t progress = 0;
    Clock::time_point moved;  // when it last moved or was found waiting
  };

  bool is_blocked(int rank, const Waiting& waiting) { return !state_.satisfied(rank, waiting); }
  void mark_blockers(int rank, const Waiting& waiting);
  std::string stalled(int culprit, Clock::duration still);
  std::string deadlocked(Clock::duration still);

  LocalState& state_;
  const int rank_;
  bool watching_ = false;
  std::vector<Seen> seen_;        // [ranks]
  std::vector<char> reached_;     // [ranks]: this rank waits for it, directly or through others
  Clock::time_point last_moved_;  // when any rank last moved, or was free to move
};

}  // namespace lockstep
