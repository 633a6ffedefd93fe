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
    std::map<int32_t, const Sequence*> owners;  // of slots whose sequence has a logit row
    for (const LogitRow& row : step.logit_rows) owners[row.sequence->slot] = row.sequence;
    for (size_t row = 0; row < step.rows.tokens.size(); ++row) {
      const int32_t sequence = step.rows.sequences[row], position = step.rows.positions[row];
      auto& past = past_[sequence];
      if (!options_.rewindable && position > 0) {
        ASSERT_EQ(past.size(), static_cast<size_t>(position)) << "a recurrent state can only go on";
      }
      at(sequence, position) = {step.rows.tokens[row], position};
      // The past, as the attention of this row reads it: same sequence, hence the tokens of that sequence.
      ASSERT_GE(past.size(), static_cast<size_t>(position)) << "a gap";
      past.resize(static_cast<size_t>(position) + 1);
      past.back() = step.rows.tokens[row];
      // A past that another sequence left must be this one's.
      if (const auto owner = owners.find(sequence); owner != owners.end()) {
        const auto& tokens = owner->second->tokens;
        ASSERT_LE(past.size(), tokens.size());
        ASSERT_TRUE(std::equal(past.begin(), past.end(), tokens.begin()));
      }
      for (int32_t p = 0; p <= position; ++p) {
        ASSERT_EQ(at(sequence, p).first, past[static_cast<size_t>(p)]) << "sequence " << sequence << " position " << p;
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
  uint32_t pause = 3;  // a sequence comes in one of so many steps
};

struct Played {
  int64_t evictions = 0;
  int64_t prompt_tokens = 0, reused = 0;
};

// Runs random requests to their end, or cancels them; every other begins with what an earlier one had.
Played play(const SchedulerOptions& options, const Load& load, uint32_t seed) {
  std::mt19937 random(seed);
  Scheduler scheduler(options);
  Cache cache(options);
  std::map<const Sequence*, size_t> goal;
  std::map<const Sequence*, std::set<int64_t>> seen;
  int64_t left = load.sequences, steps = 0, done = 0;
  Played played;
  std::vector<std::vector<int32_t>> earlier{{}};
  const auto end = [&](const Sequence* sequence) {
    played.reused += sequence->reused;
    earlier.push_back(sequence->tokens);
    goal.erase(sequence);
    seen.erase(sequence);
    scheduler.remove(*sequence);
    ++done;
  };
  while (done < load.sequences) {
    while (left > 0 && random() % load.pause == 0) {
      std::vector<int32_t> tokens(1 + random() % static_cast<size_t>(load.max_prompt));
      for (auto& token : tokens) token = static_cast<int32_t>(random() % 1000);
      if (random() % 2 == 0) {
        const auto& begin = earlier[earlier.size() - 1 - random() % std::min<size_t>(earlier.size(), 4)];
        const size_t shared = random() % 2 == 0 ? begin.size() : random() % (begin.size() + 1);
        std::copy_n(begin.begin(), std::min(shared, tokens.size()), tokens.begin());
      }
      played.prompt_tokens += static_cast<int64_t>(tokens.size());
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
    if (testing::Test::HasFatalFailure()) return played;
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
      end(sequence);
    }
    if (random() % 16 == 0 && !goal.empty()) end(std::next(goal.begin(), random() % goal.size())->first);
    EXPECT_LT(++steps, 100000) << "a sequence starves";
    if (steps >= 100000) break;
  }
  EXPECT_EQ(scheduler.free_pages() + scheduler.used_pages(), options.pages);
  if (!options.reuse_prefixes) {
    EXPECT_EQ(scheduler.used_pages(), 0);
  }
  played.evictions = scheduler.evictions();
  return played;
}

TEST(Scheduler, RunsEverySequenceToItsEnd) {
  for (uint32_t seed = 0; seed < 20; ++seed) EXPECT_EQ(play({16, 4, 64, 8}, {40, 60, 40}, seed).evictions, 0);
}

TEST(Scheduler, EvictsAndRebuildsWhenPagesAreShort) {
  // 13 pages of 8 tokens hold one longest sequence (100 tokens) and little more.
  int64_t evictions = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) evictions += play({7, 5, 13, 8}, {30, 60, 40}, seed).evictions;
  EXPECT_GT(evictions, 50);
}

TEST(Scheduler, ReusesWhatOthersLeft) {
  for (const bool rewindable : {true, false}) {
    Played all;
    for (uint32_t seed = 0; seed < 40; ++seed) {
      // Much room and little load, 13 pages as above, and many sequences at once.
      for (const auto& [pages, load] : std::initializer_list<std::pair<int64_t, Load>>{
               {64, {40, 90, 10, 20}}, {13, {40, 90, 10, 20}}, {13, {30, 60, 40, 3}}}) {
        const Played one = play({7, 5, pages, 8, true, rewindable}, load, seed);
        all.evictions += one.evictions;
        all.reused += one.reused;
        all.prompt_tokens += one.prompt_tokens;
      }
    }
    EXPECT_GT(all.evictions, 50);
    EXPECT_GT(all.reused, all.prompt_tokens / (rewindable ? 30 : 80));
  }
}

// One slot, as a conversation has: each prompt is the whole past and something new.
TEST(Scheduler, AConversationIsReadOnce) {
  Scheduler scheduler({16, 1, 20, 8, true, false});
  std::vector<int32_t> talk;
  int64_t rows = 0;
  for (int32_t turn = 0; turn < 5; ++turn) {
    for (int32_t i = 0; i < 20; ++i) talk.push_back(100 * turn + i);
    Sequence& sequence = scheduler.add(talk, 160, INT64_MAX);
    while (sequence.state != SequenceState::Decoding) {
      rows += static_cast<int64_t>(scheduler.next_step().rows.tokens.size());
      scheduler.step_done();
    }
    EXPECT_EQ(sequence.reused, static_cast<int64_t>(talk.size()) - 20);
    scheduler.remove(sequence);
  }
  EXPECT_EQ(rows, 100);
}

TEST(Scheduler, WhatIsLeftMakesRoom) {
  Scheduler scheduler({100, 3, 30, 8, true, true});
  const auto run = [&](std::vector<int32_t> tokens) {
    const auto most = static_cast<int64_t>(tokens.size());
    Sequence& sequence = scheduler.add(std::move(tokens), most, INT64_MAX);
    scheduler.next_step();
    scheduler.step_done();
    const int64_t reused = sequence.reused;
    scheduler.remove(sequence);
    return reused;
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(std::vector<int32_t>(80, i)), 0);
  EXPECT_EQ(scheduler.free_pages(), 0);
  EXPECT_EQ(run(std::vector<int32_t>(80, 3)), 0);   // takes what 0 left
  EXPECT_EQ(run(std::vector<int32_t>(80, 2)), 79);  // the last token is read for its logits
  EXPECT_EQ(run(std::vector<int32_t>(40, 1)), 39);
  EXPECT_EQ(run(std::vector<int32_t>(80, 0)), 0);
}

TEST(Scheduler, APrefixIsNotCutForOneThatSharesLittle) {
  Scheduler scheduler({1000, 4, 100, 8, true, true});
  const auto run = [&](const std::vector<int32_t>& tokens) {
    Sequence& sequence = scheduler.add(tokens, static_cast<int64_t>(tokens.size()), INT64_MAX);
    scheduler.next_step();
    scheduler.step_done();
    const int64_t reused = sequence.reused;
    scheduler.remove(sequence);
    return reused;
  };
  std::vector<int32_t> conversation(400, 7);
  conversation.front() = 1;
  EXPECT_EQ(run(conversation), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run({1, 2 + i, 3, 4, 5}), 0);  // the first token of all
  conversation.push_back(8);
  EXPECT_EQ(run(conversation), 400);
}

// What an eviction takes away was not reused.
TEST(Scheduler, EvictionForgetsWhatWasReused) {
  Scheduler scheduler({100, 2, 6, 8, true, true});
  Sequence& before = scheduler.add(std::vector<int32_t>(16, 5), 17, INT64_MAX);
  scheduler.next_step();
  scheduler.step_done();
  scheduler.remove(before);
  Sequence& first = scheduler.add(std::vector<int32_t>(8, 6), 48, INT64_MAX);
  Sequence& second = scheduler.add(std::vector<int32_t>(20, 5), 48, INT64_MAX);
  const auto step = [&] {
    scheduler.next_step();
    scheduler.step_done();
  };
  step();
  EXPECT_EQ(second.reused, 16);
  while (scheduler.evictions() == 0) {
    scheduler.append(first, 6);
    scheduler.append(second, 5);
    step();
  }
  EXPECT_EQ(second.state, SequenceState::Waiting);
  EXPECT_EQ(second.reused, 0);
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
