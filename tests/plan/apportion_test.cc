// The partition function.
#include <gtest/gtest.h>

#include <numeric>

#include "plan/plan.h"

namespace lockstep {
namespace {

std::vector<int64_t> sizes(const std::vector<Range>& runs) {
  std::vector<int64_t> counts;
  for (const Range& run : runs) counts.push_back(run.size());
  return counts;
}

TEST(Apportion, RunsAreContiguousAndComplete) {
  for (int64_t units = 0; units <= 40; ++units) {
    for (size_t ranks = 1; ranks <= 9; ++ranks) {
      for (int64_t rotation = 0; rotation < 10; ++rotation) {
        const auto runs = apportion(units, std::vector<double>(ranks, 1.0), rotation);
        int64_t next = 0, least = units, most = 0;
        for (const Range& run : runs) {
          ASSERT_EQ(run.begin, next);
          ASSERT_LE(run.begin, run.end);
          next = run.end;
          least = std::min(least, run.size());
          most = std::max(most, run.size());
        }
        EXPECT_EQ(next, units);
        EXPECT_LE(most - least, 1);  // equal shares differ by at most one unit
      }
    }
  }
}

TEST(Apportion, RemaindersRotate) {
  EXPECT_EQ(sizes(apportion(9, {1, 1}, 0)), (std::vector<int64_t>{5, 4}));
  EXPECT_EQ(sizes(apportion(9, {1, 1}, 1)), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(sizes(apportion(8, {1, 1, 1}, 2)), (std::vector<int64_t>{3, 2, 3}));
  // Over as many rotations as ranks, every rank gets the same.
  std::vector<int64_t> total(7);
  for (int64_t rotation = 0; rotation < 7; ++rotation) {
    const auto counts = sizes(apportion(24, std::vector<double>(7, 1.0), rotation));
    for (size_t r = 0; r < 7; ++r) total[r] += counts[r];
  }
  EXPECT_EQ(total, std::vector<int64_t>(7, 24));
}

TEST(Apportion, SharesByLargestRemainder) {
  EXPECT_EQ(sizes(apportion(9, {2, 1}, 0)), (std::vector<int64_t>{6, 3}));
  EXPECT_EQ(sizes(apportion(9, {3, 1}, 0)), (std::vector<int64_t>{7, 2}));  // quotas 6.75, 2.25
  EXPECT_EQ(sizes(apportion(9, {1, 0, 1}, 1)), (std::vector<int64_t>{4, 0, 5}));
  EXPECT_EQ(sizes(apportion(5, {1e300, 1e300}, 0)), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(sizes(apportion(2, {1, 1, 1, 1}, 3)), (std::vector<int64_t>{1, 0, 0, 1}));
}

}  // namespace
}  // namespace lockstep
