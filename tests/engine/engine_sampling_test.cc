// Sampling through the engine: what a request asks for is what its callback and its completion get.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "engine/engine.h"
#include "support/tiny_models.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class EngineSampling : public testing::Test {
 protected:
  static EngineOptions options() {
    EngineOptions options;
    options.plan.tp_size = 2;
    options.context = 64;
    return options;
  }
  static Request request(const SamplingOptions& sampling) {
    Request request;
    request.tokens = {1, 2, 3};
    request.max_tokens = 20;
    request.sampling = sampling;
    return request;
  }
  Completion run(const SamplingOptions& sampling) { return engine.submit(request(sampling)).get(); }

  TinyModel model{"gqa"};
  Engine engine{*model.checkpoint, model.spec, options()};
};

TEST_F(EngineSampling, LogprobsReachCallbackAndCompletion) {
  std::vector<PickedToken> seen;
  std::vector<std::vector<float>> rows;
  Request asked = request({.temperature = 1, .logprobs = 2});
  asked.logits_from = 2;
  asked.on_logits = [&rows](int64_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); };
  asked.on_token = [&seen](const PickedToken& picked) {
    seen.push_back(picked);
    return true;
  };
  const Completion completion = engine.submit(std::move(asked)).get();
  ASSERT_EQ(completion.tokens.size(), 20U);
  ASSERT_EQ(completion.logprobs.size(), 20U);
  ASSERT_EQ(seen.size(), 20U);
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(completion.logprobs[i].token, completion.tokens[i]);
    EXPECT_EQ(seen[i].token, completion.tokens[i]);
    EXPECT_EQ(seen[i].logprob, completion.logprobs[i].logprob);
    double total = 0;
    for (const double logit : rows[i]) total += std::exp(logit);
    const double logit = rows[i][static_cast<size_t>(seen[i].token)];
    EXPECT_NEAR(seen[i].logprob, logit - std::log(total), 1e-9);
    ASSERT_EQ(seen[i].top.size(), 2U);
    EXPECT_EQ(seen[i].top[0].token, std::max_element(rows[i].begin(), rows[i].end()) - rows[i].begin());
  }
  EXPECT_TRUE(run({.temperature = 1}).logprobs.empty());
}

// Repetition looks at the prompt and the output, the counts at the output alone; worked out here from the logits.
TEST_F(EngineSampling, PenaltiesSeePromptAndOutput) {
  std::vector<std::vector<float>> rows;
  Request asked = request({.repeat_penalty = 1.5, .presence_penalty = 0.5, .frequency_penalty = 0.25});
  asked.logits_from = 2;
  asked.on_logits = [&rows](int64_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); };
  std::vector<int32_t> all = asked.tokens;
  const size_t prompt = all.size();
  const Completion completion = engine.submit(std::move(asked)).get();
  ASSERT_EQ(completion.tokens.size(), rows.size());
  for (size_t step = 0; step < rows.size(); ++step) {
    std::vector<double> scores(rows[step].begin(), rows[step].end());
    for (size_t token = 0; token < scores.size(); ++token) {
      const auto id = static_cast<int32_t>(token);
      const auto times = std::count(all.begin() + static_cast<int64_t>(prompt), all.end(), id);
      if (std::count(all.begin(), all.end(), id) > 0) scores[token] *= scores[token] > 0 ? 1 / 1.5 : 1.5;
      scores[token] -= 0.25 * static_cast<double>(times) + (times > 0 ? 0.5 : 0);
    }
    EXPECT_EQ(completion.tokens[step], std::max_element(scores.begin(), scores.end()) - scores.begin());
    all.push_back(completion.tokens[step]);
  }
  EXPECT_NE(completion.tokens, run({}).tokens);
}

TEST_F(EngineSampling, ACallbackEndsTheGeneration) {
  int steps = 0;
  Request asked = request({});
  asked.on_logits = [&steps](int64_t, std::span<const float>) { ++steps; };
  asked.logits_from = 2;
  int tokens = 0;
  asked.on_token = [&tokens](const PickedToken&) { return ++tokens < 5; };
  const Completion completion = engine.submit(std::move(asked)).get();
  EXPECT_EQ(completion.reason, FinishReason::Cancelled);
  EXPECT_EQ(completion.tokens.size(), 5U);
  EXPECT_EQ(steps, 5);
}

// Before the prompt has been read to its end, and while tokens come; another request goes on.
TEST_F(EngineSampling, ACancelledRequestEndsAfterTheStep) {
  EngineOptions small = options();
  small.prefill_chunk = 4;
  small.max_sequences = 2;
  Engine chunks(*model.checkpoint, model.spec, small);
  for (const int64_t last : {3, 25}) {  // the position after which it is cancelled
    std::stop_source source;
    std::vector<Request> requests{request({}), request({})};
    Request& asked = requests[0];
    asked.tokens.assign(20, 7);
    asked.cancel = source.get_token();
    int64_t seen = 0;
    asked.on_logits = [&](int64_t position, std::span<const float>) {
      seen = position;
      if (position == last) source.request_stop();
    };
    auto futures = chunks.submit(std::move(requests));
    const Completion completion = futures[0].get();
    EXPECT_EQ(completion.reason, FinishReason::Cancelled);
    EXPECT_EQ(seen, last);
    EXPECT_EQ(completion.tokens.size(), last < 19 ? 0U : static_cast<size_t>(last - 19));
    EXPECT_EQ(futures[1].get().tokens, run({}).tokens);
  }
}

TEST_F(EngineSampling, RefusesABiasOutsideTheVocabulary) {
  for (const int32_t token : {-1, 257, INT32_MAX}) {
    try {
      engine.submit(request({.logit_bias = {{5, 1.0}, {token, 1.0}}}));
      ADD_FAILURE() << token;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("--logit-bias"), HasSubstr(std::to_string(token)), HasSubstr("256")));
    }
  }
}

TEST_F(EngineSampling, EveryTokenRuledOutEndsTheRequestAlone) {
  SamplingOptions none;
  for (int32_t token = 0; token < 257; ++token) {
    none.logit_bias.push_back({token, -std::numeric_limits<double>::infinity()});
  }
  std::vector<Request> requests{request(none), request({})};
  auto futures = engine.submit(std::move(requests));
  EXPECT_THROW(futures[0].get(), Error);
  EXPECT_EQ(futures[1].get().tokens.size(), 20U);
}

}  // namespace
}  // namespace lockstep
