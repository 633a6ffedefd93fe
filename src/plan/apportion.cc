// The one partition function: units to ranks by largest remainder.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/plan.h"

namespace lockstep {

std::vector<Range> apportion(int64_t units, const std::vector<double>& shares, int64_t rotation) {
  const auto ranks = static_cast<int64_t>(shares.size());
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<int64_t> counts(shares.size());
  std::vector<double> remainders(shares.size());
  int64_t left = units;
  for (size_t r = 0; r < shares.size(); ++r) {
    const double quota = static_cast<double>(units) * (shares[r] / sum);
    counts[r] = std::min(left, static_cast<int64_t>(std::floor(quota)));
    remainders[r] = quota - std::floor(quota);
    left -= counts[r];
  }
  // Ranks in the order in which they are served: largest remainder first, ties from `rotation` on. Only ranks with a
  // share are served.
  std::vector<int64_t> order;
  for (int64_t i = 0; i < ranks; ++i) {
    const int64_t r = (rotation + i) % ranks;
    if (shares[static_cast<size_t>(r)] > 0) order.push_back(r);
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return remainders[static_cast<size_t>(a)] > remainders[static_cast<size_t>(b)];
  });
  for (size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++counts[static_cast<size_t>(order[i])];

  std::vector<Range> runs;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    runs.push_back({begin, begin + count});
    begin += count;
  }
  return runs;
}

}  // namespace lockstep
