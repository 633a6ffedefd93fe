// The scheduler against a model of what a cache must hold.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace lockstep {
namespace {

// Plays the ranks: keeps page tables as they are told, writes one token a slot, and checks that every row finds its
// whole past in its own pages.
class Cache {
 public:
  explicit Cache(const SchedulerOptions& options) : options_(options) {}

  void run(const ScheduledStep& step) {
    ASSERT_LE(static_cast<int64_t>(step.rows.tokens.size()), options_.prefill_rows + options_.max_sequences);
    ASSERT_LE(static_cast<int64_t>(step.rows.pages.size()), options_.pages);
    for (const auto& page : step.rows.pages) table_[{page.sequence, page.index}] = page.page;
    for (size_t row = 0; row < step.rows.tokens.size(); ++row) {
      const int32_t sequence = step.rows.sequences[row], position = step.rows.positions[row];
      at(sequence, position) = {step.rows.tokens[row], position};
      // The past, as the attention of this row reads it: same sequence, hence the tokens of that sequence.
      past_[sequence].resize(static_cast<size_t>(position) + 1);
      past_[sequence][static_cast<size_t>(position)] = step.rows.tokens[row];
      for (int32_t p = 0; p <= position; ++p) {
        ASSERT_EQ(at(sequence, p).first, past_[sequence][static_cast<size_t>(p)])
            << "sequence " << sequence << " position " << p;
        ASSERT_EQ(at(sequence, p).second, p);
      }
    }
  }

 private:
  std::pair<int32_t, int32_t>& at(int32_t sequence, int32_t position) {
    const auto page = table_.at({sequence, position / static_cast<int32_t>(options_.page_tokens)});
    return slots_[{page, position % static_cast<int32_t>(options_.page_tokens)}];
  }
  SchedulerOptions options_;
  std::map<std::pair<int32_t, int32_t>, int32_t> table_;
  std::map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>> slots_;
  std::map<int32_t, std::vector<int32_t>> past_;
};

struct Load {
  int64_t sequences, max_prompt, max_new;
};

// Runs random requests to their end; returns how many evictions there were.
int64_t play(const SchedulerOptions& options, const Load& load, uint32_t seed) {
  std::mt19937 random(seed);
  Scheduler scheduler(options);
  Cache cache(options);
  std::map<const Sequence*, size_t> goal;
  std::map<const Sequence*, std::set<int64_t>> seen;
  int64_t left = load.sequences, steps = 0, done = 0;
  while (done < load.sequences) {
    while (left > 0 && random() % 3 == 0) {
      std::vector<int32_t> tokens(1 + random() % static_cast<size_t>(load.max_prompt));
      for (auto& token : tokens) token = static_cast<int32_t>(random() % 1000);
      const size_t length = tokens.size() + 1 + random() % static_cast<size_t>(load.max_new);
      const auto most = static_cast<int64_t>(length);
      Sequence& sequence = scheduler.add(std::move(tokens), most, random() % 2 == 0 ? 0 : INT64_MAX);
      goal[&sequence] = length;
      --left;
    }
    if (scheduler.idle()) continue;
    const ScheduledStep& step = scheduler.next_step();
    EXPECT_FALSE(step.rows.tokens.empty());
    EXPECT_EQ(scheduler.free_pages() + scheduler.used_pages(), options.pages);
    cache.run(step);
    if (testing::Test::HasFatalFailure()) return -1;
    std::vector<Sequence*> draws;
    for (const LogitRow& row : step.logit_rows) {
      EXPECT_TRUE(seen[row.sequence].insert(row.position).second) << "logits of a position given twice";
      if (row.sample) draws.push_back(row.sequence);
    }
    scheduler.step_done();
    for (Sequence* sequence : draws) {
      if (sequence->tokens.size() + 1 < goal.at(sequence)) {
        scheduler.append(*sequence, static_cast<int32_t>(random() % 1000));
        continue;
      }
      if (seen[sequence].contains(0)) {
        EXPECT_EQ(seen[sequence].size(), sequence->tokens.size());
      }
      goal.erase(sequence);
      seen.erase(sequence);
      scheduler.remove(*sequence);
      ++done;
    }
    EXPECT_LT(++steps, 100000) << "a sequence starves";
    if (steps >= 100000) break;
  }
  EXPECT_EQ(scheduler.free_pages(), options.pages);
  return scheduler.evictions();
}

TEST(Scheduler, RunsEverySequenceToItsEnd) {
  for (uint32_t seed = 0; seed < 20; ++seed) EXPECT_EQ(play({16, 4, 64, 8}, {40, 60, 40}, seed), 0);
}

TEST(Scheduler, EvictsAndRebuildsWhenPagesAreShort) {
  // 13 pages of 8 tokens hold one longest sequence (100 tokens) and little more.
  int64_t evictions = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) evictions += play({7, 5, 13, 8}, {30, 60, 40}, seed);
  EXPECT_GT(evictions, 50);
}

TEST(Scheduler, OnePromptRowAStep) {
  play({1, 3, 40, 8}, {9, 30, 20}, 1);
}

TEST(Scheduler, WholeContextsThatFitAreAllAdmitted) {
  Scheduler scheduler({100, 3, 30, 8});
  for (int i = 0; i < 3; ++i) scheduler.add(std::vector<int32_t>(80, i), 80, INT64_MAX);
  scheduler.next_step();
  EXPECT_EQ(scheduler.free_pages(), 0);
}

TEST(Scheduler, DecodesGoOnDuringALongPrefill) {
  Scheduler scheduler({8, 2, 100, 8});
  Sequence& first = scheduler.add({1, 2, 3}, 20, INT64_MAX);
  scheduler.next_step();
  scheduler.step_done();
  scheduler.append(first, 4);
  scheduler.add(std::vector<int32_t>(80, 5), 81, INT64_MAX);
  for (int step = 0; step < 10; ++step) {
    const ScheduledStep& scheduled = scheduler.next_step();
    EXPECT_EQ(scheduled.rows.tokens.size(), 9U);  // one decode and eight prompt rows
    EXPECT_EQ(scheduled.rows.sequences[0], first.slot);
    scheduler.step_done();
    scheduler.append(first, 6);
  }
}

}  // namespace
}  // namespace lockstep
