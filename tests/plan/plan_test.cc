// Plans of real shapes: slices, shared KV heads, sites, sizes that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/plan.h"
#include "support/fake_checkpoint.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

// SmolLM2-135M: 9 query heads of 64, 3 KV heads, feed-forward 1536 in blocks of 32.
ModelSpec smollm2() {
  return read_model(fake_llama({.hidden = 576,
                                .heads = 9,
                                .kv_heads = 3,
                                .head_dim = 64,
                                .ffn = 1536,
                                .vocab = 49152,
                                .layers = 30,
                                .dtype = DType::Q4_1}));
}

const TensorPlan& tensor(const ModelSpec& spec, const ShardPlan& plan, Role role, int64_t layer) {
  return plan.tensors[static_cast<size_t>(spec.find(role, layer) - spec.weights.data())];
}

TEST(Plan, DividesHeadsAndTheKvHeadsTheyRead) {
  const ModelSpec spec = smollm2();
  const ShardPlan plan = make_plan(spec, {.tp_size = 2});
  const auto& q = tensor(spec, plan, Role::AttnQ, 0);
  EXPECT_EQ(q.strategy, Strategy::ColumnParallel);
  EXPECT_EQ(q.slices[0].end, 5 * 64);
  EXPECT_EQ(q.slices[1].begin, 5 * 64);
  // Query heads 3, 4, 5 read KV head 1; rank 0 has 3 and 4, rank 1 has 5.
  const auto& k = tensor(spec, plan, Role::AttnK, 0);
  EXPECT_EQ(k.slices[0].begin, 0);
  EXPECT_EQ(k.slices[0].end, 2 * 64);
  EXPECT_EQ(k.slices[1].begin, 1 * 64);
  EXPECT_EQ(k.slices[1].end, 3 * 64);
  const int64_t one_head = 64 * row_bytes(DType::Q4_1, 576);
  EXPECT_EQ(k.shared_bytes, (std::vector<int64_t>{one_head, one_head}));
  EXPECT_EQ(tensor(spec, plan, Role::AttnOutput, 0).strategy, Strategy::RowParallel);
  EXPECT_EQ(tensor(spec, plan, Role::FfnDown, 0).comm, CommPattern::AllReduce);
  EXPECT_EQ(tensor(spec, plan, Role::AttnNorm, 0).strategy, Strategy::Replicated);
  EXPECT_EQ(tensor(spec, plan, Role::TokenEmbedding, -1).strategy, Strategy::VocabParallel);
}

TEST(Plan, MoreRanksThanKvHeadsKeepOneEach) {
  const ModelSpec spec = smollm2();
  const ShardPlan plan = make_plan(spec, {.tp_size = 9});
  for (int rank = 0; rank < 9; ++rank) {
    EXPECT_EQ(plan.layers[0].heads.runs[static_cast<size_t>(rank)], (Range{rank, rank + 1}));
    EXPECT_EQ(plan.layers[0].kv_heads[static_cast<size_t>(rank)], (Range{rank / 3, rank / 3 + 1}));
  }
}

TEST(Plan, RanksWithoutHeadsStillShareTheFeedForward) {
  const ModelSpec spec = smollm2();
  const ShardPlan plan = make_plan(spec, {.tp_size = 24});
  int without_heads = 0;
  for (int rank = 0; rank < 24; ++rank) {
    without_heads += plan.layers[0].heads.here(rank) == 0;
    EXPECT_EQ(plan.layers[0].ffn.here(rank), 64);
  }
  EXPECT_EQ(without_heads, 15);
}

TEST(Plan, SpareUnitsGoRound) {
  const ModelSpec spec = smollm2();
  const ShardPlan plan = make_plan(spec, {.tp_size = 7});
  int64_t least = INT64_MAX, most = 0;
  for (const RankPlan& rank : plan.ranks) {
    least = std::min(least, rank.weight_bytes - rank.replicated_bytes);
    most = std::max(most, rank.weight_bytes - rank.replicated_bytes);
  }
  EXPECT_LT(static_cast<double>(most - least), 0.1 * static_cast<double>(most));
}

TEST(Plan, ListsTwoSitesALayerAndOneForEachVocabularyMode) {
  const ModelSpec spec = smollm2();
  const auto sites = [&](VocabMode embedding, VocabMode head) {
    return make_plan(spec, {.tp_size = 2, .embedding = embedding, .lm_head = head}).sites;
  };
  using enum VocabMode;
  EXPECT_EQ(sites(VocabParallel, VocabParallel).size(), 62U);
  EXPECT_EQ(sites(VocabParallel, Replicated).size(), 61U);
  EXPECT_EQ(sites(Replicated, Replicated).size(), 60U);
  EXPECT_TRUE(make_plan(spec, {.tp_size = 1}).sites.empty());
  const auto two = sites(VocabParallel, VocabParallel);
  EXPECT_EQ(two[1].name, "attn_output");
  // 9 leaves as 5 + 4: [0,4) [4,5) and [5,6) [6,8) [8,9), the last alone since its sibling is missing: five nodes.
  EXPECT_EQ(two[1].bytes_per_token, 5 * 576 * 4);
  // 24 leaves as 12 + 12: [0,8) [8,12) and [12,16) [16,24).
  EXPECT_EQ(two[2].bytes_per_token, 4 * 576 * 4);
  EXPECT_EQ(two.back().pattern, CommPattern::Gather);
  EXPECT_EQ(two.back().bytes_per_token, 49152 * 4);
}

TEST(Plan, ATiedTableIsWholeWhenEitherUseWantsItWhole) {
  const ModelSpec spec = smollm2();
  for (const auto& [embedding, head, strategy] :
       {std::tuple{VocabMode::VocabParallel, VocabMode::Replicated, Strategy::Replicated},
        std::tuple{VocabMode::Replicated, VocabMode::VocabParallel, Strategy::Replicated},
        std::tuple{VocabMode::VocabParallel, VocabMode::VocabParallel, Strategy::VocabParallel}}) {
    const ShardPlan plan = make_plan(spec, {.tp_size = 3, .embedding = embedding, .lm_head = head});
    EXPECT_EQ(tensor(spec, plan, Role::TokenEmbedding, -1).strategy, strategy);
  }
}

TEST(Plan, HeadEdgesInsideBlocksKeepTheBlockOnBothSides) {
  // Heads of 8 in blocks of 32: the edge at element 24 lies inside a block.
  const ModelSpec spec = read_model(fake_llama({.hidden = 64,
                                                .heads = 8,
                                                .kv_heads = 1,
                                                .head_dim = 8,
                                                .ffn = 64,
                                                .vocab = 50,
                                                .layers = 1,
                                                .dtype = DType::Q4_0}));
  const ShardPlan plan = make_plan(spec, {.tp_size = 2, .shares = {3, 5}});
  const auto& o = tensor(spec, plan, Role::AttnOutput, 0);
  EXPECT_EQ(o.slices[0].end, 24);
  EXPECT_EQ(o.slices[0].bytes, 64 * 18);      // one block a row
  EXPECT_EQ(o.slices[1].bytes, 64 * 2 * 18);  // two
  EXPECT_EQ(o.shared_bytes, (std::vector<int64_t>{64 * 18, 64 * 18}));
}

TEST(Plan, RefusesSizesThatCannotWork) {
  const ModelSpec spec = smollm2();
  EXPECT_EQ(largest_tp_size(spec), 24);
  for (const int size : {0, -1, 25, 1000}) {
    try {
      make_plan(spec, {.tp_size = size});
      ADD_FAILURE() << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::DoesNotFit);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("9 query heads"), HasSubstr("feed-forward 1536 in leaves of 64"),
                                      HasSubstr("sizes 1 to 24 work"),
                                      HasSubstr(size < 1 ? "the nearest is 1" : "the nearest is 24")));
    }
  }
}

TEST(Plan, RefusesSharesThatAreNone) {
  const ModelSpec spec = smollm2();
  for (const std::vector<double>& shares :
       {std::vector<double>{1}, {1, 2, 3}, {0, 0}, {-1, 2}, {NAN, 1}, {INFINITY, 1}}) {
    EXPECT_THROW(make_plan(spec, {.tp_size = 2, .shares = shares}), Error);
  }
}

}  // namespace
}  // namespace lockstep
