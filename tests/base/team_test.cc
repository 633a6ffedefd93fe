// Teams of every size, also larger than the machine: each thread once, every element once, errors of workers delivered.
#include "base/team.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <string>

namespace lockstep {
namespace {

class Teams : public testing::TestWithParam<int> {
 protected:
  Team::Options options() const { return {.threads = GetParam(), .spin = {.spins = 50}, .on_start = {}}; }
};

INSTANTIATE_TEST_SUITE_P(Threads, Teams, testing::Values(1, 2, 3, 18));

TEST_P(Teams, RunsTheWorkOnceOnEachThread) {
  Team team(options());
  EXPECT_EQ(team.threads(), GetParam());
  std::vector<int> calls(static_cast<size_t>(GetParam()));
  std::vector<std::thread::id> ids(calls.size());
  for (int run = 1; run <= 300; ++run) {
    team.run([&](int thread) {
      ++calls[static_cast<size_t>(thread)];
      ids[static_cast<size_t>(thread)] = std::this_thread::get_id();
    });
    for (const int count : calls) ASSERT_EQ(count, run);
  }
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  for (size_t i = 1; i < ids.size(); ++i) EXPECT_NE(ids[i], ids[i - 1]);
}

TEST_P(Teams, SplitsEveryElementToOneThreadAtMultiples) {
  Team team(options());
  for (const int64_t count : {0, 1, 15, 16, 17, 100, 1000}) {
    for (const int64_t multiple : {1, 16, 64}) {
      std::vector<int> owners(static_cast<size_t>(count), 0);
      team.split(count, multiple, [&](int64_t begin, int64_t end, int thread) {
        EXPECT_LT(begin, end);
        EXPECT_EQ(begin % multiple, 0);
        EXPECT_TRUE(end % multiple == 0 || end == count);
        EXPECT_LT(thread, team.threads());
        for (int64_t i = begin; i < end; ++i) ++owners[static_cast<size_t>(i)];
      });
      for (const int owner : owners) ASSERT_EQ(owner, 1);
      team.split(count, multiple, [&](int64_t begin, int64_t end, int thread) {
        EXPECT_EQ(team.part(count, multiple, thread).begin, begin);
        EXPECT_EQ(team.part(count, multiple, thread).end, end);
      });
    }
  }
}

TEST_P(Teams, RethrowsTheErrorOfTheLowestThreadAfterAllHaveFinished) {
  Team team(options());
  const int last = GetParam() - 1;
  std::atomic<int> finished = 0;
  try {
    team.run([&](int thread) {
      ++finished;
      if (thread >= last / 2) throw std::runtime_error(std::to_string(thread));
    });
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), std::to_string(last / 2));
  }
  EXPECT_EQ(finished, GetParam());
  finished = 0;
  team.run([&](int) { ++finished; });  // the team still works, and the error is gone
  EXPECT_EQ(finished, GetParam());
}

TEST_P(Teams, StartsEveryWorkerOnce) {
  std::atomic<int> started = 0;
  Team::Options started_options = options();
  started_options.on_start = [&](int thread) {
    EXPECT_GE(thread, 1);
    ++started;
  };
  Team team(started_options);
  for (int run = 0; run < 3; ++run) team.run([&](int thread) { EXPECT_TRUE(thread == 0 || started > 0); });
  EXPECT_EQ(started, GetParam() - 1);
}

TEST(Team, WhatOnStartThrowsTheFirstRunThrows) {
  Team team({.threads = 2, .spin = {}, .on_start = [](int) { throw std::runtime_error("cannot pin"); }});
  EXPECT_THROW(team.run([](int) {}), std::runtime_error);
  EXPECT_NO_THROW(team.run([](int) {}));
}

}  // namespace
}  // namespace lockstep
