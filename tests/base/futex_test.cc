// Waiting words: changes, timeouts and wake-ups that must not be lost.
#include "base/futex.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(WaitWord, ReturnsAtOnceWhenTheWordHasChanged) {
  WaitWord word;
  EXPECT_EQ(word.add(3), 3u);
  EXPECT_TRUE(word.wait_while_equal(0, {}, 1h));
  EXPECT_EQ(word.set_bits(4), 7u);
  EXPECT_EQ(word.load(), 7u);
}

TEST(WaitWord, TimesOut) {
  const WaitWord word;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(word.wait_while_equal(0, {.spins = 10}, 20ms));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
}

TEST(WaitWord, NoChangeIsLostBetweenTwoThreadsThatAlternate) {
  for (const int spins : {0, 50}) {
    WaitWord ping, pong;
    constexpr uint32_t kRounds = 5000;
    std::thread other([&] {
      for (uint32_t i = 0; i < kRounds; ++i) {
        EXPECT_TRUE(ping.wait_while_equal(i, {spins}, 1min));
        pong.add(1);
        pong.wake_all();
      }
    });
    for (uint32_t i = 0; i < kRounds; ++i) {
      ping.add(1);
      ping.wake_all();
      EXPECT_TRUE(pong.wait_while_equal(i, {spins}, 1min));
    }
    other.join();
    EXPECT_EQ(pong.load(), kRounds);
  }
}

TEST(WaitWord, PublishesWhatWasWrittenBefore) {
  WaitWord word;
  int data = 0;
  std::thread writer([&] {
    data = 42;
    word.add(1);
    word.wake_all();
  });
  EXPECT_TRUE(word.wait_while_equal(0, {}, 1min));
  EXPECT_EQ(data, 42);
  writer.join();
}

}  // namespace
}  // namespace lockstep
