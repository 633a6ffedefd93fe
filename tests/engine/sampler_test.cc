// Sampling against its definition.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "engine/engine.h"

namespace lockstep {
namespace {

std::map<int32_t, double> frequencies(const std::vector<float>& logits, SamplingOptions options, int draws = 100000) {
  std::map<int32_t, double> counts;
  for (int i = 0; i < draws; ++i) counts[pick_token(logits, options, i)] += 1.0 / draws;
  return counts;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdOfATie) {
  EXPECT_EQ(pick_token(std::vector<float>{1, 3, 2, 3}, {}, 0), 1);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(pick_token(std::vector<float>{-infinity, -infinity, -5}, {}, 0), 2);
}

TEST(Sampler, FollowsTheSoftmax) {
  const std::vector<float> logits = {1.0F, 0.0F, 2.0F, -1.0F, 0.5F};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    double total = 0;
    for (const float logit : logits) total += std::exp(logit / temperature);
    const auto found = frequencies(logits, {.temperature = temperature, .seed = 3});
    double chi = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double p = std::exp(logits[i] / temperature) / total;
      const double f = found.contains(static_cast<int32_t>(i)) ? found.at(static_cast<int32_t>(i)) : 0;
      chi += 100000 * (f - p) * (f - p) / p;
    }
    EXPECT_LT(chi, 18.47) << "temperature " << temperature;  // 4 degrees of freedom, 0.1 %
  }
}

TEST(Sampler, KeepsWhatTheFiltersSay) {
  // Probabilities 0.4, 0.3, 0.2, 0.1.
  const std::vector<float> logits = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
  const auto kept = [&](SamplingOptions options) {
    options.temperature = 1;
    std::vector<int32_t> ids;
    for (const auto& [id, frequency] : frequencies(logits, options, 5000)) ids.push_back(id);
    return ids;
  };
  EXPECT_EQ(kept({}), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(kept({.top_k = 2}), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(kept({.top_k = 99}), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(kept({.top_p = 0.0}), (std::vector<int32_t>{1}));
  EXPECT_EQ(kept({.top_p = 0.65}), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(kept({.top_p = 0.75}), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(kept({.min_p = 0.45}), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(kept({.min_p = 1.0}), (std::vector<int32_t>{1}));
}

TEST(Sampler, RandomnessIsAFunctionOfSeedAndPosition) {
  std::vector<float> logits(1000, 0.0F);
  const SamplingOptions seven{.temperature = 1, .seed = 7}, eight{.temperature = 1, .seed = 8};
  int same = 0;
  for (int64_t position = 0; position < 200; ++position) {
    EXPECT_EQ(pick_token(logits, seven, position), pick_token(logits, seven, position));
    same += pick_token(logits, seven, position) == pick_token(logits, eight, position);
  }
  EXPECT_LT(same, 5);
}

TEST(Sampler, RefusesWhatIsNoNumber) {
  EXPECT_THROW(check({.temperature = NAN}), Error);
  EXPECT_THROW(check({.temperature = -1}), Error);
  EXPECT_THROW(check({.top_k = -1}), Error);
  EXPECT_THROW(check({.top_p = 1.5}), Error);
  EXPECT_THROW(check({.min_p = -0.1}), Error);
  EXPECT_NO_THROW(check({}));
}

}  // namespace
}  // namespace lockstep
