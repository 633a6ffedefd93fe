// A rank that waits leaves the processor to others: it spins briefly, then sleeps.
#include <gtest/gtest.h>
#include <time.h>

#include <thread>

#include "comm/comm.h"
#include "comm/run_ranks.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// Processor time of the calling thread, in seconds.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Processor time as a part of the time that `call` takes.
template <class Call>
double processor_part(const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  const double before = processor_seconds();
  call();
  const double used = processor_seconds() - before;
  return used / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(Waiting, ForASecondTakesUnderOnePercentOfACore) {
  LocalGroupOptions options;  // the default spin policy
  options.stall = milliseconds(60'000);
  test::run_ranks(3, options, [](Group& group) {
    std::vector<std::byte> data(8);
    const auto late = [&](int rank, const auto& call) {
      if (group.rank() == rank) {
        std::this_thread::sleep_for(milliseconds(1000));
        call();
        return;
      }
      const double part = processor_part(call);
      EXPECT_LT(part, 0.01) << "rank " << group.rank();
    };
    late(2, [&] { group.barrier(); });
    late(0, [&] { group.broadcast(data, 0); });
    if (group.rank() == 2) return;
    late(0, [&] { group.rank() == 0 ? group.send(data, 1) : group.receive(data, 0); });
    late(1, [&] { group.rank() == 0 ? group.send(data, 1) : group.receive(data, 0); });
  });
}

}  // namespace
}  // namespace lockstep
