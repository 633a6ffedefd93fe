// A paused process is not stalled: time in which the watch itself did not run counts against nobody.
#include "comm/stall_watch.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

class StallWatchTest : public testing::Test {
 protected:
  static constexpr milliseconds kStall{1000};
  static constexpr milliseconds kInterval{50};

  static LocalGroupOptions options() {
    LocalGroupOptions options;
    options.stall = kStall;
    return options;
  }

  // Looks every interval for `time`; whether a stall was found.
  bool stalls_within(milliseconds time) {
    for (milliseconds passed{0}; passed < time; passed += kInterval) {
      now_ += kInterval;
      if (watch_.check(now_)) return true;
    }
    return false;
  }

  // Rank 0 waits for rank 1, which computes and never ticks.
  void SetUp() override {
    state_.rank(0).waiting.store(
        Waiting{.kind = Waiting::Kind::Arrival, .op = Op::Barrier, .peer = 1, .target = kOne}.pack());
    EXPECT_FALSE(watch_.check(now_));
  }

  LocalState state_{2, options()};
  StallWatch watch_{state_, 0, kInterval};
  StallWatch::Clock::time_point now_ = StallWatch::Clock::now();
};

TEST_F(StallWatchTest, StandingStillForTheLimitIsAStall) {
  EXPECT_FALSE(stalls_within(kStall - kInterval));
  EXPECT_TRUE(stalls_within(2 * kInterval));
}

TEST_F(StallWatchTest, APauseDoesNotCount) {
  for (int pause = 0; pause < 3; ++pause) {
    EXPECT_FALSE(stalls_within(kStall / 5));
    now_ += 10 * kStall;
    EXPECT_FALSE(watch_.check(now_));
  }
  EXPECT_TRUE(stalls_within(kStall));
}

}  // namespace
}  // namespace lockstep
