// How a group ends: aborts, stalls, deadlocks and disagreements. Every rank must throw, and the message must say who
// and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "comm/comm.h"
#include "comm/run_ranks.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using test::failures_of;
using test::patient_options;
using test::run_ranks;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

LocalGroupOptions with_stall(milliseconds limit) {
  LocalGroupOptions options = patient_options();
  options.stall = limit;
  return options;
}

// --- abort ---

TEST(Abort, WakesEveryWaiterAndNamesRankAndCause) {
  const auto messages = failures_of(4, patient_options(), [](Group& group) {
    if (group.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(30));  // so that most of the others sleep by now
      group.abort("disk on fire");
    }
    group.barrier();
  });
  EXPECT_THAT(messages, Each(HasSubstr("rank 2 failed: disk on fire")));
}

TEST(Abort, NamesTheStepOfTheRankThatFailed) {
  const auto messages = failures_of(2, patient_options(), [](Group& group) {
    group.begin_step(17);
    if (group.rank() == 1) group.abort("bad luck");
    group.barrier();
  });
  EXPECT_THAT(messages, Each(HasSubstr("rank 1 failed at step 17: bad luck")));
}

TEST(Abort, WakesSendersAndReceivers) {
  const auto messages = failures_of(3, patient_options(), [](Group& group) {
    std::vector<std::byte> data(8);
    if (group.rank() == 0) group.send(data, 2);
    if (group.rank() == 1) group.receive(data, 2);
    if (group.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(30));
      group.abort("gone");
      group.barrier();
    }
  });
  EXPECT_THAT(messages, Each(HasSubstr("rank 2 failed: gone")));
}

TEST(Abort, TheFirstCauseWinsAndEveryLaterCallThrows) {
  run_ranks(2, patient_options(), [](Group& group) {
    if (group.rank() != 0) return;
    EXPECT_FALSE(group.aborted());
    group.abort("first");
    group.abort("second");
    EXPECT_TRUE(group.aborted());
    std::vector<float> values(4);
    const std::vector<size_t> counts{4, 0};
    const auto bytes = std::as_writable_bytes(std::span(values));
    const auto expect_end = [](const auto& call) {
      try {
        call();
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::RankFailed);
        EXPECT_THAT(error.what(), AllOf(HasSubstr("first"), testing::Not(HasSubstr("second"))));
      }
    };
    expect_end([&] { group.all_reduce(one_leaf_per_rank(2), values, values); });
    expect_end([&] { group.all_reduce_ring(values); });
    expect_end([&] { group.all_gather(values, counts, values); });
    expect_end([&] { group.reduce_scatter(values, counts, values); });
    expect_end([&] { group.gather(values, counts, values, 0); });
    expect_end([&] { group.broadcast(bytes, 0); });
    expect_end([&] { group.barrier(); });
    expect_end([&] { group.send(bytes, 1); });
    expect_end([&] { group.receive(bytes, 1); });
  });
}

// Buffers die with the exception while peers may still read them: the sanitizers watch here.
TEST(Abort, NoRankReadsBuffersOfARankThatHasThrown) {
  for (int trial = 0; trial < 50; ++trial) {
    LocalGroupOptions options = patient_options();
    options.one_shot_bytes = 0;
    const auto groups = make_local_group(3, options);
    std::vector<std::thread> ranks;
    for (const auto& group : groups) {
      ranks.emplace_back([&, end = group.get()] {
        try {
          for (;;) {
            std::vector<float> mine(20'000, 1), out(20'000);
            end->all_reduce(one_leaf_per_rank(3), mine, out);
            end->all_reduce_ring(mine);
          }
        } catch (const Error&) {
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500 * (trial % 7)));
    groups[0]->abort("enough");
    for (std::thread& rank : ranks) rank.join();
    EXPECT_TRUE(groups[2]->aborted());
  }
}

// --- stalls ---

TEST(Stall, NamesTheRankThatStandsStill) {
  std::atomic<bool> over = false;
  const auto messages = failures_of(4, with_stall(milliseconds(150)), [&](Group& group) {
    group.begin_step(5);
    group.at({7, "ffn_output"});
    group.barrier();
    group.at({8, "attn_output"});
    if (group.rank() == 2) {
      group.at({7, "ffn_output"});
      while (!over) std::this_thread::sleep_for(milliseconds(5));  // never ticks
    } else {
      try {
        group.barrier();
      } catch (const Error&) {
        over = true;
        throw;
      }
    }
    group.barrier();
  });
  EXPECT_THAT(messages,
              Each(AllOf(HasSubstr("rank 2 stalled at step 5: no progress"), HasSubstr("ffn_output of layer 7"),
                         HasSubstr("attn_output of layer 8"), HasSubstr("limit 0.1"))));
}

TEST(Stall, ALongStepThatTicksIsNone) {
  run_ranks(3, with_stall(milliseconds(400)), [](Group& group) {
    if (group.rank() == 1) {
      for (int i = 0; i < 150; ++i) {  // 1.5 s of work
        std::this_thread::sleep_for(milliseconds(10));
        group.tick();
      }
    }
    group.barrier();
    EXPECT_FALSE(group.aborted());
  });
}

// Rank 0 waits for rank 1, which itself waits for rank 2: only rank 2 is to blame.
TEST(Stall, ARankThatWaitsForAThirdIsNotToBlame) {
  std::atomic<int> ended = 0;
  const auto messages = failures_of(3, with_stall(milliseconds(150)), [&](Group& group) {
    std::vector<std::byte> data(8);
    try {
      if (group.rank() == 0) group.receive(data, 1);
      if (group.rank() == 1) group.receive(data, 2);
    } catch (const Error&) {
      ++ended;
      throw;
    }
    while (group.rank() == 2 && ended < 2) std::this_thread::sleep_for(milliseconds(5));
    group.barrier();
  });
  EXPECT_THAT(messages, Each(HasSubstr("rank 2 stalled")));
}

// The same chain while rank 2 works and ticks: rank 1 stands still for long, and nobody stalls.
TEST(Stall, WaitingLongForARankThatTicksIsNone) {
  run_ranks(3, with_stall(milliseconds(400)), [](Group& group) {
    std::vector<std::byte> data(8);
    for (int i = 0; group.rank() == 2 && i < 150; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      group.tick();
    }
    if (group.rank() < 2) group.receive(data, group.rank() + 1);
    if (group.rank() > 0) group.send(data, group.rank() - 1);
    EXPECT_FALSE(group.aborted());
  });
}

TEST(Stall, RanksThatWaitForOneAnotherAreAllNamed) {
  const auto messages = failures_of(2, with_stall(milliseconds(150)), [](Group& group) {
    std::vector<std::byte> data(8);
    group.at({3, "attn_output"});
    if (group.rank() == 0) group.receive(data, 1);
    group.barrier();
  });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("wait for one another"), HasSubstr("rank 0 in receive"),
                                   HasSubstr("rank 1 in barrier"))));
}

// --- disagreements ---

class Disagreement : public testing::TestWithParam<std::tuple<bool, int64_t>> {
 protected:
  LocalGroupOptions options() const {
    LocalGroupOptions options = patient_options();
    std::tie(options.check, options.one_shot_bytes) = GetParam();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(CheckedOrNot, Disagreement,
                         testing::Combine(testing::Bool(), testing::Values(0, 100, 1 << 20)));

TEST_P(Disagreement, LengthsOfAllReduce) {
  const auto messages = failures_of(3, options(), [](Group& group) {
    std::vector<float> values(group.rank() == 1 ? 12 : 8);
    group.at({4, "ffn_output"});
    group.all_reduce(one_leaf_per_rank(3), values, values);
  });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("all_reduce of 8 floats at ffn_output of layer 4"),
                                   HasSubstr("of 12 floats"), HasSubstr("rank 1"))));
}

TEST_P(Disagreement, NodesOfAllReduce) {
  const auto messages = failures_of(2, options(), [](Group& group) {
    const std::vector<Range> a{{0, 1}, {1, 2}}, b{{0, 0}, {0, 2}};
    const TreeLayout layout = tree_layout(2, group.rank() == 0 ? a : b);
    std::vector<float> mine(8), out(8);
    group.all_reduce(layout, mine, out);  // without checking only rank 1 can tell: it expects nothing of rank 0
    group.barrier();
  });
  EXPECT_THAT(messages, Each(options().check ? HasSubstr("differently among the ranks") : HasSubstr("gives 8 floats")));
}

TEST_P(Disagreement, LengthsOfTheOthers) {
  const auto lengths = AllOf(HasSubstr(" 6 "), HasSubstr(" 7 "));
  const auto fails = [&](const auto& call) {
    EXPECT_THAT(failures_of(2, options(),
                            [&](Group& group) {
                              std::vector<float> values(group.rank() == 0 ? 6 : 7);
                              call(group, std::span(values));
                            }),
                Each(lengths));
  };
  fails([](Group& group, std::span<float> values) { group.all_reduce_ring(values); });
  fails([](Group& group, std::span<float> values) {
    const std::vector<size_t> counts{values.size(), 0};
    std::vector<float> mine(group.rank() == 0 ? values.size() : 0);
    group.reduce_scatter(values, counts, mine);
  });
  fails([](Group& group, std::span<float> values) {
    const std::vector<size_t> counts{values.size() - 2, 2};
    std::vector<float> all(values.size());
    group.all_gather(std::span(all).first(counts[static_cast<size_t>(group.rank())]), counts, all);
  });
  fails([](Group& group, std::span<float> values) {
    const std::vector<size_t> counts{values.size() - 2, 2};
    group.gather(values.first(counts[static_cast<size_t>(group.rank())]), counts, values, 0);
  });
  fails([](Group& group, std::span<float> values) {
    group.broadcast(std::as_writable_bytes(values).first(values.size()), 1);
  });
  fails([](Group& group, std::span<float> values) {
    const auto bytes = std::as_writable_bytes(values).first(values.size());
    if (group.rank() == 0) {
      group.send(bytes, 1);
    } else {
      group.receive(bytes, 0);
    }
  });
}

TEST_P(Disagreement, Operations) {
  const auto messages = failures_of(2, options(), [](Group& group) {
    std::vector<float> values(5);
    if (group.rank() == 0) {
      group.all_reduce_ring(values);
    } else {
      group.barrier();
    }
  });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("rank 0 calls all_reduce_ring of 5"), HasSubstr("rank 1 calls barrier"))));
}

TEST_P(Disagreement, RootsOfBroadcast) {
  const auto messages = failures_of(2, options(), [](Group& group) {
    std::vector<std::byte> data(5);
    group.broadcast(data, group.rank());
  });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("root 0"), HasSubstr("root 1"))));
}

TEST_P(Disagreement, ALengthAgainstTheCounts) {
  const auto messages = failures_of(2, options(), [](Group& group) {
    const std::vector<size_t> counts{3, 4};
    std::vector<float> mine(group.rank() == 1 ? 400'000 : 3), all(7);
    group.all_gather(mine, counts, all);
  });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("rank 1 has 400000 floats"), HasSubstr("say 4"))));
}

TEST_P(Disagreement, Steps) {
  const auto messages = failures_of(3, options(), [](Group& group) {
    std::vector<float> values(4);
    group.begin_step(group.rank() == 1 ? 8 : 9);
    group.at({2, "attn_output"});
    group.all_reduce(one_leaf_per_rank(3), values, values);
  });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("all_reduce of 4 floats at attn_output of layer 2 in step 8"),
                                   HasSubstr("all_reduce of 4 floats at attn_output of layer 2 in step 9"))));
}

TEST(Checking, SitesThatDiffer) {
  const auto messages = failures_of(2, patient_options(), [](Group& group) {
    group.at({group.rank(), "ffn_output"});
    group.barrier();
  });
  EXPECT_THAT(messages, Each(AllOf(HasSubstr("ffn_output of layer 0"), HasSubstr("ffn_output of layer 1"))));
}

}  // namespace
}  // namespace lockstep
