// Promise 2: the bits of the logits do not depend on the number of ranks, the shares, the prefill chunk, the batch or
// the threads. Every comparison is ==.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "engine/engine.h"
#include "support/tiny_models.h"

namespace lockstep {
namespace {

// How a run is made.
struct Run {
  PlanOptions plan;
  int threads = 1;
  int64_t chunk = 0;
  int64_t batch = 1;
};

std::string describe(const Run& run) {
  std::string shares;
  for (const double share : run.plan.shares) shares += fmt::format("{},", share);
  return fmt::format("tp {} split '{}' threads {} chunk {} batch {} embedding {} head {} every_leaf {}",
                     run.plan.tp_size, shares, run.threads, run.chunk, run.batch, static_cast<int>(run.plan.embedding),
                     static_cast<int>(run.plan.lm_head), run.plan.every_leaf);
}

std::vector<int32_t> prompt(int64_t length, int64_t vocab, uint32_t seed) {
  std::vector<int32_t> tokens;
  uint32_t state = seed * 2654435761U + 1;
  for (int64_t i = 0; i < length; ++i) {
    state = state * 1664525U + 1013904223U;
    tokens.push_back(static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocab)));
  }
  return tokens;
}

// Logits of every position of one sequence: 40 prompt tokens and 6 drawn ones, in the middle of batch - 1 others.
std::vector<float> logits_of(const TinyModel& model, const Run& run, DType kv_dtype = DType::F32) {
  EngineOptions options;
  options.plan = run.plan;
  options.threads = run.threads;
  options.context = 64;
  options.max_sequences = run.batch;
  options.prefill_chunk = run.chunk;
  options.kv_dtype = kv_dtype;
  options.check_comm = true;
  std::vector<float> rows;
  std::vector<Request> requests(static_cast<size_t>(run.batch));
  for (int64_t i = 0; i < run.batch; ++i) {
    Request& request = requests[static_cast<size_t>(i)];
    const bool checked = i == run.batch / 2;
    request.tokens = prompt(checked ? 40 : 5 + 7 * i, model.spec.vocab, checked ? 1 : static_cast<uint32_t>(100 + i));
    request.max_tokens = 7;
    if (checked) {
      request.on_logits = [&rows](int64_t, std::span<const float> logits) {
        rows.insert(rows.end(), logits.begin(), logits.end());
      };
    }
  }
  Engine engine(*model.checkpoint, model.spec, options);
  for (auto& future : engine.submit(std::move(requests))) future.get();
  return rows;
}

void expect_same(const std::vector<float>& expected, const TinyModel& model, const Run& run,
                 DType kv_dtype = DType::F32) {
  const std::vector<float> found = logits_of(model, run, kv_dtype);
  ASSERT_EQ(found.size(), expected.size()) << describe(run);
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0)
      << model.spec.file << ": " << describe(run);
}

class Exact : public testing::TestWithParam<std::string> {
 protected:
  TinyModel model{GetParam()};
  std::vector<float> one_rank = logits_of(model, {});
};

TEST_P(Exact, GivesEveryLogit) {
  EXPECT_EQ(one_rank.size(), static_cast<size_t>(46 * model.spec.vocab));
}

TEST_P(Exact, AtEverySize) {
  for (int size = 2; size <= largest_tp_size(model.spec); ++size) expect_same(one_rank, model, {{.tp_size = size}});
}

TEST_P(Exact, WithUnequalShares) {
  for (const std::vector<double>& shares : {std::vector<double>{2, 1}, {3, 1}, {1, 5}, {1, 0, 1}, {1, 2, 3, 1}}) {
    const int size = static_cast<int>(shares.size());
    if (size <= largest_tp_size(model.spec)) expect_same(one_rank, model, {{.tp_size = size, .shares = shares}});
  }
}

TEST_P(Exact, ForEveryChunkBatchAndThreadCount) {
  for (const int size : {1, 2, 3}) {
    for (const int64_t chunk : {1, 7, 64, 0}) {
      for (const int64_t batch : {1, 7}) {
        for (const int threads : {1, 2}) expect_same(one_rank, model, {{.tp_size = size}, threads, chunk, batch});
      }
    }
  }
}

TEST_P(Exact, InEveryVocabularyMode) {
  for (const VocabMode embedding : {VocabMode::VocabParallel, VocabMode::Replicated}) {
    for (const VocabMode head : {VocabMode::VocabParallel, VocabMode::Replicated}) {
      for (const int size : {2, 3, 5}) {
        if (size <= largest_tp_size(model.spec)) {
          expect_same(one_rank, model, {{.tp_size = size, .embedding = embedding, .lm_head = head}, 1, 7, 2});
        }
      }
    }
  }
}

// What `inspect` lists is what runs: as many collectives a step, and as many bytes, as the plan's sites say.
TEST_P(Exact, CommunicatesWhatThePlanLists) {
  for (const ReduceMode reduce : {ReduceMode::Tree, ReduceMode::Ring}) {
    for (const VocabMode mode : {VocabMode::VocabParallel, VocabMode::Replicated}) {
      for (const int size : {1, 2, 3}) {
        EngineOptions options;
        options.plan = {.tp_size = size, .embedding = mode, .lm_head = mode, .reduce = reduce};
        options.context = 64;
        Engine engine(*model.checkpoint, model.spec, options);
        Request request;
        request.tokens = {1, 2, 3};  // one step of three rows, logits of the last
        engine.submit(std::move(request)).get();
        int64_t bytes = 0;
        for (const SitePlan& site : engine.plan().sites) {
          bytes += site.bytes_per_token * (site.pattern == CommPattern::Gather ? 1 : 3);
        }
        int64_t sent = 0;
        for (const RankReport& rank : engine.reports()) {
          sent += rank.comm_bytes;
          if (size > 1) {
            EXPECT_EQ(rank.comm_calls, static_cast<int64_t>(engine.plan().sites.size()));
          }
        }
        EXPECT_EQ(sent, bytes) << "tp " << size;
      }
    }
  }
}

TEST_P(Exact, WhenEveryLeafIsContributedByItself) {
  for (const int size : {1, 2, 3}) expect_same(one_rank, model, {{.tp_size = size, .every_leaf = true}});
}

TEST_P(Exact, WithHalfPrecisionCaches) {
  for (const DType dtype : {DType::F16, DType::BF16}) {
    const std::vector<float> expected = logits_of(model, {}, dtype);
    EXPECT_NE(std::memcmp(expected.data(), one_rank.data(), expected.size() * sizeof(float)), 0);
    for (const int size : {2, 3}) expect_same(expected, model, {{.tp_size = size}, 2, 7, 7}, dtype);
  }
}

// With everything that sampling knows; log-probabilities are compared with == too.
TEST_P(Exact, DrawsTheSameTokens) {
  const auto run = [&](int size, uint64_t seed) {
    EngineOptions options;
    options.plan.tp_size = size;
    options.context = 64;
    options.prefill_chunk = size;
    Request request;
    request.tokens = prompt(20, model.spec.vocab, 2);
    request.max_tokens = 40;
    request.sampling = {.logit_bias = {{1, 2.0}, {2, -std::numeric_limits<double>::infinity()}},
                        .repeat_penalty = 1.2,
                        .presence_penalty = 0.5,
                        .frequency_penalty = 0.3,
                        .temperature = 1,
                        .top_k = 40,
                        .top_p = 0.95,
                        .min_p = 0.01,
                        .seed = seed,
                        .logprobs = 2};
    Engine engine(*model.checkpoint, model.spec, options);
    return engine.submit(std::move(request)).get();
  };
  const Completion one = run(1, 7);
  EXPECT_EQ(one.tokens.size(), 40U);
  EXPECT_NE(run(1, 8).tokens, one.tokens);
  for (const int size : {2, 3, 7}) {
    if (size > largest_tp_size(model.spec)) continue;
    const Completion other = run(size, 7);
    EXPECT_EQ(other.tokens, one.tokens) << "tp " << size;
    for (size_t i = 0; i < one.tokens.size(); ++i) {
      EXPECT_EQ(other.logprobs.at(i).logprob, one.logprobs.at(i).logprob) << "tp " << size << ", token " << i;
      const auto& top = one.logprobs[i].top;
      EXPECT_TRUE(std::equal(
          top.begin(), top.end(), other.logprobs[i].top.begin(), other.logprobs[i].top.end(),
          [](const TokenLogprob& a, const TokenLogprob& b) { return a.token == b.token && a.logprob == b.logprob; }))
          << "tp " << size << ", token " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, Exact, testing::ValuesIn(tiny_model_names()), [](const auto& name) {
  std::string clean = name.param;
  std::replace_if(
      clean.begin(), clean.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return clean;
});

// The comparison can fail: one unit in the last place, on one rank, in the last layer, is seen.
TEST(ExactTeeth, OneUlpIsSeen) {
  const TinyModel model(tiny_model_names().front());
  const auto run = [&](std::optional<Fault> fault) {
    EngineOptions options;
    options.plan.tp_size = 2;
    options.context = 64;
    options.faults.fault = fault;
    options.kv_dtype = DType::F32;
    std::vector<float> rows;
    Request request;
    request.tokens = prompt(10, model.spec.vocab, 1);
    request.on_logits = [&rows](int64_t, std::span<const float> logits) {
      rows.insert(rows.end(), logits.begin(), logits.end());
    };
    Engine engine(*model.checkpoint, model.spec, options);
    engine.submit(std::move(request)).get();
    return rows;
  };
  const auto sound = run({});
  EXPECT_EQ(sound, run({}));
  EXPECT_NE(sound, run(Fault{1, 0, Fault::Kind::Ulp}));
}

}  // namespace
}  // namespace lockstep
