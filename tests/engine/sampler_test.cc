// Picking tokens against NumPy (tests/oracle/make_sampling_fixtures.py) and, at the edges, against the definition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/engine.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using Tokens = std::vector<int32_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const json& fixture() {
  static const json parsed = json::parse(std::ifstream(LOCKSTEP_FIXTURES "/sampling/sampling.json"));
  return parsed;
}

SamplingOptions options_of(const json& from) {
  SamplingOptions options;
  for (const json& bias : from.at("logit_bias")) {
    options.logit_bias.push_back({bias.at(0), bias.at(1).is_null() ? -kInfinity : bias.at(1).get<double>()});
  }
  options.repeat_penalty = from.at("repeat_penalty");
  options.presence_penalty = from.at("presence_penalty");
  options.frequency_penalty = from.at("frequency_penalty");
  options.temperature = from.at("temperature");
  options.top_k = from.at("top_k");
  options.top_p = from.at("top_p");
  options.min_p = from.at("min_p");
  check(options);
  return options;
}

// After a prompt of `position` tokens.
int32_t pick_at(const std::vector<float>& logits, const SamplingOptions& options, size_t position) {
  return pick_token(logits, options, Tokens(position, 0), {}).token;
}

TEST(Sampler, PenaltiesAndBiasAreNumPys) {
  size_t number = 0;
  for (const json& item : fixture().at("greedy")) {
    SamplingOptions options = options_of(item);
    options.logprobs = item.at("top").size();
    const PickedToken picked = pick_token(item.at("logits").get<std::vector<float>>(), options,
                                          item.at("prompt").get<Tokens>(), item.at("generated").get<Tokens>());
    EXPECT_EQ(picked.token, item.at("token")) << "case " << number;
    EXPECT_NEAR(picked.logprob, item.at("logprob").get<double>(), 1e-12) << "case " << number;
    ASSERT_EQ(picked.top.size(), item.at("top").size());
    for (size_t i = 0; i < picked.top.size(); ++i) {
      EXPECT_EQ(picked.top[i].token, item.at("top")[i][0]) << "case " << number;
      EXPECT_NEAR(picked.top[i].logprob, item.at("top")[i][1].get<double>(), 1e-12) << "case " << number;
    }
    ++number;
  }
  EXPECT_GE(number, 400U);
}

TEST(Sampler, DrawsAreDistributedAsNumPySays) {
  const int draws = fixture().at("draws");
  for (const json& item : fixture().at("distributions")) {
    SamplingOptions options = options_of(item);
    const auto logits = item.at("logits").get<std::vector<float>>();
    const auto prompt = item.at("prompt").get<Tokens>(), generated = item.at("generated").get<Tokens>();
    const auto probabilities = item.at("probabilities").get<std::vector<double>>();
    std::vector<int> counts(probabilities.size());
    for (int i = 0; i < draws; ++i) {
      options.seed = static_cast<uint64_t>(i);
      ++counts[static_cast<size_t>(pick_token(logits, options, prompt, generated).token)];
    }
    double chi_square = 0;
    for (size_t token = 0; token < counts.size(); ++token) {
      const double expected = draws * probabilities[token];
      if (expected == 0) {
        EXPECT_EQ(counts[token], 0) << item;
      } else {
        chi_square += (counts[token] - expected) * (counts[token] - expected) / expected;
      }
    }
    EXPECT_LE(chi_square, item.at("limit").get<double>()) << item;
  }
}

// The random numbers of one seed along a sequence are as good as those of many seeds.
TEST(Sampler, PositionsDrawFromTheSoftmax) {
  const std::vector<float> logits = {1.0F, 0.0F, 2.0F, -1.0F, 0.5F};
  const Tokens prompt(100000, 0);
  double total = 0;
  for (const float logit : logits) total += std::exp(logit);
  std::vector<int> counts(logits.size());
  for (size_t position = 0; position < prompt.size(); ++position) {
    const std::span<const int32_t> before(prompt.data(), position);
    ++counts[static_cast<size_t>(pick_token(logits, {.temperature = 1, .seed = 3}, before, {}).token)];
  }
  double chi_square = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double expected = 100000 * std::exp(logits[i]) / total;
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 18.47);  // 4 degrees of freedom, 0.1 %
}

TEST(Sampler, RandomnessIsAFunctionOfSeedAndPosition) {
  const std::vector<float> logits(1000, 0.0F);
  const SamplingOptions seven{.temperature = 1, .seed = 7}, eight{.temperature = 1, .seed = 8};
  int same_seed = 0, same_position = 0, same_sum = 0;
  for (size_t position = 1; position < 200; ++position) {
    const int32_t token = pick_at(logits, seven, position);
    // It does not matter which tokens were there, and which of them were generated.
    EXPECT_EQ(token, pick_token(logits, seven, Tokens(1, 9), Tokens(position - 1, 5)).token);
    same_seed += token == pick_at(logits, seven, position + 1);
    same_position += token == pick_at(logits, eight, position);
    same_sum += token == pick_at(logits, eight, position - 1);
  }
  EXPECT_LT(same_seed, 5);
  EXPECT_LT(same_position, 5);
  EXPECT_LT(same_sum, 5);
}

// A distribution so flat that top-p keeps hundreds: what is drawn over many positions is exactly the set that sorting
// all of them gives.
TEST(Sampler, TopPKeepsTheFewestOfManyToo) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 0.5F);
  std::vector<float> logits(1000);
  for (float& logit : logits) logit = std::round(normal(random) * 50) / 50;  // with ties
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  double total = 0;
  for (const float logit : logits) total += std::exp(double{logit});
  for (const double top_p : {0.05, 0.3, 0.7, 0.99}) {
    std::set<int32_t> kept;
    double mass = 0;
    for (auto id = ids.begin(); id != ids.end() && mass < top_p * total; ++id) {
      kept.insert(*id);
      mass += std::exp(double{logits[static_cast<size_t>(*id)]});
    }
    std::set<int32_t> drawn;
    for (size_t position = 0; position < 20'000; ++position) {
      drawn.insert(pick_at(logits, {.temperature = 1, .top_p = top_p, .seed = 3}, position));
    }
    EXPECT_EQ(drawn, kept) << top_p;
  }
}

TEST(Sampler, TakesTheLowestIdOfATie) {
  const std::vector<float> logits = {1, 3, 2, 3, 3};
  EXPECT_EQ(pick_at(logits, {}, 0), 1);
  for (size_t position = 0; position < 50; ++position) {
    EXPECT_EQ(pick_at(logits, {.temperature = 1, .top_k = 1}, position), 1);
    EXPECT_EQ(pick_at(logits, {.temperature = 1, .top_p = 0}, position), 1);
    EXPECT_EQ(pick_at({2, 2}, {.temperature = 1, .top_p = 0.5}, position), 0);  // one reaches the half exactly
    EXPECT_NE(pick_at(logits, {.temperature = 1, .top_k = 2}, position), 4);
  }
  // Tied by what was done to them.
  EXPECT_EQ(pick_token(logits, {.logit_bias = {{0, 2}}}, Tokens{0}, {}).token, 0);
  EXPECT_EQ(pick_token(logits, {.repeat_penalty = 1.5}, Tokens{1, 3, 4}, {}).token, 1);
  const PickedToken picked = pick_token(logits, {.logprobs = 3}, Tokens{0}, {});
  EXPECT_EQ(picked.top[0].token, 1);
  EXPECT_EQ(picked.top[1].token, 3);
  EXPECT_EQ(picked.top[2].token, 4);
}

TEST(Sampler, WorksAtTheEdgesOfItsOptions) {
  const std::vector<float> logits = {0.25F, 2.0F, -1.0F, 1.0F};
  const float infinity = std::numeric_limits<float>::infinity();
  for (size_t position = 0; position < 200; ++position) {
    EXPECT_EQ(pick_at(logits, {.temperature = 5e-324}, position), 1);
    EXPECT_EQ(pick_at(logits, {.temperature = 1, .top_p = 5e-324}, position), 1);
    EXPECT_EQ(pick_at(logits, {.temperature = 1e6, .min_p = 1}, position), 1);
    const SamplingOptions all{.temperature = 1, .seed = 5};
    for (const SamplingOptions& same : {SamplingOptions{.temperature = 1, .top_k = 4, .seed = 5},
                                        {.temperature = 1, .top_k = 5, .seed = 5},
                                        {.temperature = 1, .top_k = INT64_MAX, .top_p = 1, .seed = 5}}) {
      EXPECT_EQ(pick_at(logits, all, position), pick_at(logits, same, position));
    }
    // What the model rules out is never drawn, and what it makes certain always.
    EXPECT_NE(pick_at({0, -infinity, 0}, {.temperature = 1e6, .top_k = 3}, position), 1);
    EXPECT_EQ(pick_at({0, infinity, 0}, {.temperature = 1e6}, position), 1);
    EXPECT_EQ(pick_at({1, infinity, 0}, {.logit_bias = {{1, -kInfinity}}, .temperature = 1e-3}, position), 0);
  }
  EXPECT_EQ(pick_at({-infinity, -infinity, -5}, {}, 0), 2);
}

TEST(Sampler, FailsWhenEveryTokenIsRuledOut) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const double temperature : {0.0, 1.0}) {
    const auto kind_of = [&](const std::vector<float>& logits, std::vector<LogitBias> bias) {
      try {
        pick_token(logits, {.logit_bias = std::move(bias), .temperature = temperature, .logprobs = 1}, Tokens(7, 0),
                   Tokens{0});
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("position 8"), HasSubstr("--logit-bias"), HasSubstr("-inf")));
        return error.kind();
      }
      return ErrorKind::Internal;  // nothing was thrown
    };
    EXPECT_EQ(kind_of({1, 2}, {{0, -kInfinity}, {1, -kInfinity}}), ErrorKind::Usage);
    EXPECT_EQ(kind_of({1, -infinity}, {{0, -kInfinity}}), ErrorKind::Usage);
    EXPECT_EQ(kind_of({-infinity, -infinity}, {}), ErrorKind::Malformed);
  }
}

TEST(Sampler, LogprobsAreTheModelsOwn) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {std::log(1.0F), std::log(4.0F), std::log(5.0F), -infinity};
  SamplingOptions options{.logit_bias = {{2, -kInfinity}},
                          .repeat_penalty = 2,
                          .presence_penalty = 1,
                          .frequency_penalty = 1,
                          .temperature = 0.1,
                          .top_k = 1};
  EXPECT_TRUE(pick_token(logits, options, Tokens{0}, Tokens{0}).top.empty());
  for (const int64_t count : {0, 2, 20}) {
    options.logprobs = count;
    const PickedToken picked = pick_token(logits, options, Tokens{0}, Tokens{0});
    EXPECT_EQ(picked.token, 1);
    EXPECT_NEAR(picked.logprob, std::log(0.4), 1e-7);
    ASSERT_EQ(picked.top.size(), static_cast<size_t>(std::min<int64_t>(count, 3)));  // not the impossible one
    if (count == 0) continue;
    EXPECT_EQ(picked.top[0].token, 2);
    EXPECT_NEAR(picked.top[0].logprob, std::log(0.5), 1e-7);
    EXPECT_EQ(picked.top[1].token, 1);
  }
  const PickedToken certain = pick_token(std::vector<float>{1, infinity, infinity}, {.logprobs = 20}, Tokens{0}, {});
  EXPECT_DOUBLE_EQ(certain.logprob, std::log(0.5));
  EXPECT_EQ(certain.top.size(), 2U);
}

TEST(Sampler, RefusesWhatItCannotDo) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [](const SamplingOptions& options, const char* name, const char* value, const char* allowed) {
    try {
      check(options);
      ADD_FAILURE() << name << " " << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(name), HasSubstr(value), HasSubstr(allowed)));
    }
  };
  struct Range {
    const char* name;
    double SamplingOptions::*option;
    double low, high;
    const char* allowed;
  };
  for (const auto& [name, option, low, high, allowed] :
       {Range{"--repeat-penalty", &SamplingOptions::repeat_penalty, 0.001, 1000, "from 0.001 to 1000"},
        Range{"--presence-penalty", &SamplingOptions::presence_penalty, -2, 2, "from -2 to 2"},
        Range{"--frequency-penalty", &SamplingOptions::frequency_penalty, -2, 2, "from -2 to 2"},
        Range{"--temp", &SamplingOptions::temperature, 0, 1e6, "from 0 to 1000000"},
        Range{"--top-p", &SamplingOptions::top_p, 0, 1, "from 0 to 1"},
        Range{"--min-p", &SamplingOptions::min_p, 0, 1, "from 0 to 1"}}) {
    SamplingOptions options;
    for (const double value :
         {nan, -nan, kInfinity, -kInfinity, std::nextafter(low, -kInfinity), std::nextafter(high, kInfinity)}) {
      options.*option = value;
      refused(options, name, fmt::format("{}", value).c_str(), allowed);
    }
    for (const double value : {low, high}) {
      options.*option = value;
      EXPECT_NO_THROW(check(options)) << name;
    }
  }
  refused({.top_k = -1}, "--top-k", "-1", "0 (all) or more");
  refused({.logprobs = -1}, "--logprobs", "-1", "from 0 to 20");
  refused({.logprobs = 21}, "--logprobs", "21", "from 0 to 20");
  refused({.logit_bias = {{3, nan}}}, "--logit-bias of token 3", "nan", "finite");
  refused({.logit_bias = {{3, kInfinity}}}, "--logit-bias of token 3", "inf", "finite");
  refused({.logit_bias = {{3, 1}, {4, 1}, {3, 1}}}, "--logit-bias", "token 3", "once");
  EXPECT_NO_THROW(check({.logit_bias = {{3, -kInfinity}, {4, 1e300}}, .top_k = INT64_MAX, .logprobs = 20}));
  EXPECT_NO_THROW(check({}));
}

}  // namespace
}  // namespace lockstep
