// Picking a token from logits, on rank 0 alone.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "engine/engine.h"

namespace lockstep {
namespace {

// One round of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Uniform in [0, 1), a function of seed and position.
double uniform(uint64_t seed, int64_t position) {
  return static_cast<double>(mix(mix(seed) + static_cast<uint64_t>(position)) >> 11) * 0x1.0p-53;
}

}  // namespace

void check(const SamplingOptions& options) {
  const auto within = [](std::string_view name, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
      fail(ErrorKind::Usage, "{} is {}; it must be a number from {} to {}", name, value, low, high);
    }
  };
  within("--temp", options.temperature, 0, 1e6);
  within("--top-p", options.top_p, 0, 1);
  within("--min-p", options.min_p, 0, 1);
  if (options.top_k < 0) fail(ErrorKind::Usage, "--top-k is {}; it must be 0 (all) or more", options.top_k);
}

int32_t pick_token(std::span<const float> logits, const SamplingOptions& options, int64_t position) {
  if (options.temperature == 0) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto larger = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(ids.size())) {
    std::nth_element(ids.begin(), ids.begin() + options.top_k, ids.end(), larger);
    ids.resize(static_cast<size_t>(options.top_k));
  }
  std::sort(ids.begin(), ids.end(), larger);

  const double largest = logits[static_cast<size_t>(ids[0])];
  std::vector<double> weights;
  double total = 0;
  for (const int32_t id : ids) {
    const double logit = logits[static_cast<size_t>(id)];
    // The largest has weight 1 even when it is infinite.
    weights.push_back(logit == largest ? 1 : std::exp((logit - largest) / options.temperature));
    total += weights.back();
  }
  size_t kept = 0;
  double mass = 0;
  while (kept < ids.size() && (kept == 0 || mass < options.top_p * total)) mass += weights[kept++];
  while (kept > 1 && weights[kept - 1] < options.min_p) mass -= weights[--kept];

  double target = uniform(options.seed, position) *
                  std::accumulate(weights.begin(), weights.begin() + static_cast<int64_t>(kept), 0.0);
  for (size_t i = 0; i < kept; ++i) {
    target -= weights[i];
    if (target < 0) return ids[i];
  }
  return ids[kept - 1];
}

}  // namespace lockstep
