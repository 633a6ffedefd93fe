// Finding out, while waiting, whether the wait can ever end.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/local_state.h"

namespace lockstep {

// How often a sleeping waiter looks whether the wait can still end: 20 times a second at most, which costs next to
// nothing, and often enough to meet the stall limit closely.
std::chrono::nanoseconds look_interval(std::chrono::nanoseconds stall);

// One waiting rank's view of the others. It follows who waits for whom: a rank that waits is never to blame, whoever it
// waits for may be. Two findings end the group: a rank that computes, but whose progress counter stands still; and
// ranks that all wait for one another. Each must last for the stall limit while this rank waits.
class StallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  StallWatch(LocalState& state, int rank, Clock::duration interval);

  // A new wait begins: whatever was seen before no longer counts.
  void restart() { watching_ = false; }

  // To be called about every `interval` during the wait. Time in which it was not called (the process was paused, or
  // got no processor) does not count against anybody: the others may not have run either. Returns the cause with which
  // to abort.
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
  const Clock::duration interval_;
  bool watching_ = false;
  Clock::time_point looked_;      // when check() was last called
  std::vector<Seen> seen_;        // [ranks]
  std::vector<char> reached_;     // [ranks]: this rank waits for it, directly or through others
  Clock::time_point last_moved_;  // when any rank last moved, or was free to move
};

}  // namespace lockstep
