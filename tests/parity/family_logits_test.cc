// Every family in every format: logits against mlx-lm's in float32, prompt and decoded positions alike, and the same
// bits for every number of ranks, chunk and batch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/family_models.h"

namespace lockstep {
namespace {

constexpr int kMostRanks = 8;

struct Division {
  int tp_size = 1;
  int64_t chunk = 0;
  int64_t batch = 1;
};

std::string describe(const Division& run) {
  return fmt::format("tp {} chunk {} batch {}", run.tp_size, run.chunk, run.batch);
}

// Logits of every position of the oracle's sequence, in the middle of batch - 1 others, each of another length.
std::vector<float> logits_of(const FamilyModel& model, const Division& run) {
  EngineOptions options;
  options.plan.tp_size = run.tp_size;
  options.context = model.context();
  options.max_sequences = run.batch;
  options.prefill_chunk = run.chunk;
  options.kv_dtype = DType::F32;
  options.check_comm = true;
  std::vector<Request> requests(static_cast<size_t>(run.batch), model.request());
  for (size_t i = 0; i < requests.size(); ++i) {
    std::rotate(requests[i].tokens.begin(), requests[i].tokens.begin() + static_cast<int64_t>(i),
                requests[i].tokens.end());
    requests[i].tokens.resize(3 + 9 * i);
  }
  Request& checked = requests[requests.size() / 2];
  checked = model.request();
  std::vector<float> rows;
  checked.on_logits = [&rows](int64_t, std::span<const float> row) { rows.insert(rows.end(), row.begin(), row.end()); };
  Engine engine(*model.checkpoint, model.spec, options);
  for (auto& future : engine.submit(std::move(requests))) future.get();
  return rows;
}

// The logits of `tokens` from position `from` on, from an engine in which a request with `before` has ended.
struct Continued {
  std::vector<float> logits;  // [tokens - from, vocab]
  int64_t reused = 0;
};
Continued continue_from(const FamilyModel& model, const std::vector<int32_t>& before,
                        const std::vector<int32_t>& tokens, size_t from, const Division& run) {
  EngineOptions options;
  options.plan.tp_size = run.tp_size;
  options.context = model.context();
  options.prefill_chunk = run.chunk;
  options.kv_dtype = DType::F32;
  options.check_comm = true;
  options.reuse_prefixes = true;
  Engine engine(*model.checkpoint, model.spec, options);
  if (!before.empty()) {
    Request request;
    request.tokens = before;
    engine.submit(std::move(request)).get();
  }
  Continued continued;
  Request request;
  request.tokens = tokens;
  request.on_logits = [&](int64_t, std::span<const float> row) {
    continued.logits.insert(continued.logits.end(), row.begin(), row.end());
  };
  request.logits_from = static_cast<int64_t>(from);
  continued.reused = engine.submit(std::move(request)).get().reused_tokens;
  return continued;
}

// No oracle caps scores. A cap near 0 leaves scores near 0, as a scale near 0 does: every position then counts alike.
TEST(ScoreCap, OfNearlyNothingMakesAttentionUniform) {
  FamilyModel model{std::string("gemma3_text.bf16")};
  const auto with = [&model](float scale, float cap) {
    for (LayerSpec& layer : model.spec.layers) {
      layer.score_scale = scale;
      layer.score_cap = cap;
    }
    return logits_of(model, {2, 16});
  };
  const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
    double most = 0;
    for (size_t i = 0; i < a.size(); ++i) most = std::max<double>(most, std::abs(a[i] - b[i]));
    return most;
  };
  const float scale = model.spec.layers.front().score_scale;
  const std::vector<float> uncapped = with(scale, 0), uniform = with(0, 0);
  EXPECT_GT(distance(uncapped, uniform), 0.1);
  EXPECT_LT(distance(with(scale, 1e-6F), uniform), 1e-4);
  EXPECT_LT(distance(with(scale, 1e6F), uncapped), 1e-4);
}

class FamilyLogits : public testing::TestWithParam<std::string> {
 protected:
  FamilyModel model{GetParam()};
};

TEST_P(FamilyLogits, AreTheOracles) {
  const double tolerance = model.facts.at("tolerance");
  EXPECT_LE(tolerance, 1e-4);
  EXPECT_GE(model.decoded.size(), 32U);
  EXPECT_GE(model.facts.at("moves_in_tolerances").size(), 1U);
  for (const auto& [feature, moves] : model.facts.at("moves_in_tolerances").items()) EXPECT_GE(moves, 100) << feature;
  const nlohmann::json faint = model.facts.value("faint_moves_in_tolerances", nlohmann::json::object());
  for (const auto& [feature, moves] : faint.items()) EXPECT_GE(moves, 5) << feature;
  double largest = 0;
  for (const float value : model.logits) largest = std::max<double>(largest, std::abs(value));
  double worst = 0;
  for (const int size : {1, 2, 3}) {
    for (const int64_t chunk : {3, 16, 0}) {
      const std::vector<float> found = logits_of(model, {size, chunk});
      ASSERT_EQ(found.size(), model.logits.size());
      for (size_t i = 0; i < found.size(); ++i) {
        const double difference = std::abs(found[i] - model.logits[i]) / largest;
        worst = std::max(worst, difference);
        ASSERT_LE(difference, tolerance) << describe({size, chunk}) << ", position "
                                         << i / static_cast<size_t>(model.spec.vocab) << " of which "
                                         << model.prompt.size() << " are the prompt's";
      }
    }
  }
  RecordProperty("worst_difference", fmt::format("{:.1e}", worst));
}

TEST_P(FamilyLogits, AreTheSameBits) {
  const std::vector<float> one_rank = logits_of(model, {});
  for (int size = 1; size <= std::min<int64_t>(kMostRanks, largest_tp_size(model.spec)); ++size) {
    for (const auto& [chunk, batch] : {std::pair<int64_t, int64_t>{0, 1}, {3, 5}, {16, 1}, {16, 5}, {0, 5}}) {
      const Division run{size, chunk, batch};
      const std::vector<float> found = logits_of(model, run);
      ASSERT_EQ(found.size(), one_rank.size()) << describe(run);
      EXPECT_EQ(std::memcmp(found.data(), one_rank.data(), found.size() * sizeof(float)), 0) << describe(run);
    }
  }
}

// What a request left is as good as what is read anew: the rest of the oracle's sequence after its prompt, and another
// that turns away in the middle of the prompt, which a recurrent state cannot follow.
TEST_P(FamilyLogits, GoOnFromWhatWasLeft) {
  std::vector<int32_t> whole = model.prompt;
  whole.insert(whole.end(), model.decoded.begin(), model.decoded.end());
  std::vector<int32_t> other = model.prompt;
  std::reverse(other.begin() + static_cast<int64_t>(other.size() / 2), other.end());
  const size_t half = std::mismatch(other.begin(), other.end(), model.prompt.begin()).first - other.begin();
  const bool recurrent =
      std::ranges::any_of(model.spec.layers, [](const LayerSpec& layer) { return layer.mixer == Mixer::GatedDelta; });
  const std::vector<float> once = logits_of(model, {});
  const std::vector<float> rest(once.begin() + static_cast<int64_t>(model.prompt.size()) * model.spec.vocab,
                                once.end());
  const std::vector<float> turned = continue_from(model, {}, other, half, {}).logits;
  for (const int size : {1, 2, 3}) {
    const Continued on = continue_from(model, model.prompt, whole, model.prompt.size(), {size, 16});
    EXPECT_EQ(on.reused, static_cast<int64_t>(model.prompt.size()));
    ASSERT_EQ(on.logits.size(), rest.size());
    EXPECT_EQ(std::memcmp(on.logits.data(), rest.data(), rest.size() * sizeof(float)), 0) << "tp " << size;
    const Continued away = continue_from(model, model.prompt, other, half, {size, 16});
    EXPECT_EQ(away.reused, recurrent ? 0 : static_cast<int64_t>(half));
    ASSERT_EQ(away.logits.size(), turned.size());
    EXPECT_EQ(std::memcmp(away.logits.data(), turned.data(), turned.size() * sizeof(float)), 0) << "tp " << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyLogits, testing::ValuesIn(family_model_names()),
                         [](const auto& name) { return family_test_name(name.param); });

}  // namespace
}  // namespace lockstep
