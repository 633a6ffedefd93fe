// Every collective for every size of group and awkward lengths. The expected values are computed from a formula for
// what each rank holds, never by lockstep.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "comm/comm.h"
#include "comm/run_ranks.h"
#include "tensor/tree_oracle.h"

namespace lockstep {
namespace {

using test::patient_options;
using test::random_runs;
using test::root_value;
using test::run_ranks;
using test::unruly_floats;

// Element i of rank r: whole numbers below 2048, so that sums over ranks are exact in any order.
float element(int rank, size_t i) {
  return static_cast<float>((i * 37 + static_cast<size_t>(rank) * 1009) % 2048);
}

std::vector<float> vector_of(int rank, size_t length) {
  std::vector<float> values(length);
  for (size_t i = 0; i < length; ++i) values[i] = element(rank, i);
  return values;
}

float sum_of_elements(int ranks, size_t i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += element(r, i);
  return sum;
}

// Uneven parts of `length`; rank 1 has none when there are three ranks or more.
std::vector<size_t> uneven_counts(size_t length, int ranks) {
  std::vector<size_t> counts(static_cast<size_t>(ranks));
  size_t left = length;
  for (size_t r = 0; r + 1 < counts.size(); ++r) {
    counts[r] = (ranks > 2 && r == 1) ? 0 : left / (counts.size() - r + 1);
    left -= counts[r];
  }
  counts.back() = left;
  return counts;
}

size_t begin_of(const std::vector<size_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, size_t{0});
}

// Counts wrong elements instead of reporting each.
template <class Expected>
void expect_elements(std::span<const float> found, const Expected& expected) {
  size_t wrong = 0;
  size_t first = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != expected(i) && wrong++ == 0) first = i;
  }
  EXPECT_EQ(wrong, 0u) << "first wrong: element " << first << " is " << found[first] << ", not " << expected(first);
}

class Collectives : public testing::TestWithParam<std::tuple<int, size_t>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  size_t length() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Grid, Collectives,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5, 7, 8),
                                          testing::Values<size_t>(0, 1, 3, 577, 4099, 1'000'003)),
                         [](const auto& info) {
                           return "Ranks" + std::to_string(std::get<0>(info.param)) + "Length" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST_P(Collectives, AllReduce) {
  run_ranks(ranks(), patient_options(), [&](Group& group) {
    const auto mine = vector_of(group.rank(), length());
    std::vector<float> out(length(), -1);
    group.all_reduce(one_leaf_per_rank(ranks()), mine, out);
    expect_elements(out, [&](size_t i) { return sum_of_elements(ranks(), i); });
  });
}

TEST_P(Collectives, AllReduceInPlace) {
  run_ranks(ranks(), patient_options(), [&](Group& group) {
    auto values = vector_of(group.rank(), length());
    group.all_reduce(one_leaf_per_rank(ranks()), values, values);
    expect_elements(values, [&](size_t i) { return sum_of_elements(ranks(), i); });
  });
}

TEST_P(Collectives, AllReduceRing) {
  std::vector<int64_t> bytes(static_cast<size_t>(ranks()));
  run_ranks(ranks(), patient_options(), [&](Group& group) {
    auto values = vector_of(group.rank(), length());
    group.all_reduce_ring(values);
    expect_elements(values, [&](size_t i) { return sum_of_elements(ranks(), i); });
    bytes[static_cast<size_t>(group.rank())] = group.counters().bytes;
  });
  // 2 (N-1)/N of the bytes: exactly over all ranks, and for each rank but for the uneven chunks.
  const auto total = static_cast<int64_t>(length() * sizeof(float));
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}), 2 * (ranks() - 1) * total);
  for (const int64_t of_rank : bytes) {
    EXPECT_NEAR(static_cast<double>(of_rank), 2.0 * (ranks() - 1) / ranks() * static_cast<double>(total),
                2.0 * sizeof(float));
  }
}

TEST_P(Collectives, AllGatherOfUnevenLengths) {
  const auto counts = uneven_counts(length(), ranks());
  run_ranks(ranks(), patient_options(), [&](Group& group) {
    const auto mine = vector_of(group.rank(), counts[static_cast<size_t>(group.rank())]);
    std::vector<float> all(length(), -1);
    group.all_gather(mine, counts, all);
    for (int r = 0; r < ranks(); ++r) {
      expect_elements(std::span(all).subspan(begin_of(counts, r), counts[static_cast<size_t>(r)]),
                      [&](size_t i) { return element(r, i); });
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesRankRChunkR) {
  const auto counts = uneven_counts(length(), ranks());
  run_ranks(ranks(), patient_options(), [&](Group& group) {
    const auto values = vector_of(group.rank(), length());
    std::vector<float> mine(counts[static_cast<size_t>(group.rank())], -1);
    group.reduce_scatter(values, counts, mine);
    const size_t begin = begin_of(counts, group.rank());
    expect_elements(mine, [&](size_t i) { return sum_of_elements(ranks(), begin + i); });
  });
}

TEST_P(Collectives, GatherWritesTheRootOnly) {
  const auto counts = uneven_counts(length(), ranks());
  for (const int root : {0, ranks() - 1}) {
    run_ranks(ranks(), patient_options(), [&](Group& group) {
      const auto mine = vector_of(group.rank(), counts[static_cast<size_t>(group.rank())]);
      std::vector<float> all(group.rank() == root ? length() : 0, -1);
      group.gather(mine, counts, all, root);
      if (group.rank() != root) return;
      for (int r = 0; r < ranks(); ++r) {
        expect_elements(std::span(all).subspan(begin_of(counts, r), counts[static_cast<size_t>(r)]),
                        [&](size_t i) { return element(r, i); });
      }
    });
  }
}

TEST_P(Collectives, Broadcast) {
  for (const int root : {0, ranks() / 2}) {
    run_ranks(ranks(), patient_options(), [&](Group& group) {
      auto values = vector_of(group.rank(), length());
      group.broadcast(std::as_writable_bytes(std::span(values)), root);
      expect_elements(values, [&](size_t i) { return element(root, i); });
    });
  }
}

TEST_P(Collectives, SendAndReceiveAroundTheRanks) {
  if (ranks() == 1) {
    // A group of one has nobody to send to; the grid stays whole with the other no-op.
    return run_ranks(1, patient_options(), [](Group& group) {
      group.barrier();
      EXPECT_EQ(group.counters().calls, 1);
      EXPECT_EQ(group.counters().bytes, 0);
    });
  }
  run_ranks(ranks(), patient_options(), [&](Group& group) {
    const int left = (group.rank() + ranks() - 1) % ranks();
    const int right = (group.rank() + 1) % ranks();
    const auto mine = vector_of(group.rank(), length());
    std::vector<float> theirs(length(), -1);
    const auto send = [&] { group.send(std::as_bytes(std::span(mine)), right); };
    const auto receive = [&] { group.receive(std::as_writable_bytes(std::span(theirs)), left); };
    // A send waits for its receiver, so one rank has to begin with receiving.
    if (group.rank() == 0) {
      receive();
      send();
    } else {
      send();
      receive();
    }
    expect_elements(theirs, [&](size_t i) { return element(left, i); });
  });
}

// --- the reduction tree ---

// Random trees and divisions: each rank contributes the nodes of its run, columns wide, and every rank must get the
// root of the recursive definition, to the bit, on the small path and on the divided one.
TEST(AllReduceTree, EqualsTheRecursiveDefinitionForEveryDivision) {
  std::mt19937 random(5);
  std::uniform_int_distribution<int64_t> any_leaves(1, 70);
  std::uniform_int_distribution<size_t> any_columns(0, 700);
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    for (int trial = 0; trial < 12; ++trial) {
      const int64_t leaves = any_leaves(random);
      const size_t columns = any_columns(random);
      const auto values = unruly_floats(static_cast<size_t>(leaves) * columns, random);  // [columns, leaves]
      const auto column = [&](size_t c) {
        return std::span(values).subspan(c * static_cast<size_t>(leaves), static_cast<size_t>(leaves));
      };
      const auto runs = random_runs(leaves, ranks, random);
      const bool every_leaf = trial % 3 == 0;
      const TreeLayout layout = tree_layout(leaves, runs, every_leaf);

      LocalGroupOptions options = patient_options();
      options.one_shot_bytes = trial % 2 == 0 ? 1 << 20 : 0;
      run_ranks(ranks, options, [&](Group& group) {
        std::vector<float> mine;  // [nodes, columns]
        for (const Range& node : nodes_of_run(leaves, runs[static_cast<size_t>(group.rank())], every_leaf)) {
          for (size_t c = 0; c < columns; ++c) mine.push_back(test::node_value(column(c), node));
        }
        std::vector<float> out(columns, -1);
        group.all_reduce(layout, mine, out);
        expect_elements(out, [&](size_t c) { return root_value(column(c)); });
        if (layout.nodes_of_rank[static_cast<size_t>(group.rank())] <= 1) mine.resize(columns);
        const bool in_place = layout.nodes_of_rank[static_cast<size_t>(group.rank())] <= 1;
        const std::span<float> input = std::span(mine).first(
            columns * static_cast<size_t>(layout.nodes_of_rank[static_cast<size_t>(group.rank())]));
        group.all_reduce(layout, input, in_place ? std::span(mine) : std::span(out));
        expect_elements(in_place ? mine : out, [&](size_t c) { return root_value(column(c)); });
      });
    }
  }
}

TEST(AllReduceTree, ReduceScatterJoinsInTheOrderOfTheTree) {
  std::mt19937 random(6);
  constexpr int kRanks = 7;
  constexpr size_t kColumns = 333;
  const auto values = unruly_floats(kRanks * kColumns, random);  // [columns, ranks]
  const auto counts = uneven_counts(kColumns, kRanks);
  run_ranks(kRanks, patient_options(), [&](Group& group) {
    const auto rank = static_cast<size_t>(group.rank());
    std::vector<float> mine(kColumns);
    for (size_t c = 0; c < kColumns; ++c) mine[c] = values[c * kRanks + rank];
    std::vector<float> out(counts[rank]);
    group.reduce_scatter(mine, counts, out);
    const size_t begin = begin_of(counts, group.rank());
    expect_elements(out, [&](size_t i) { return root_value(std::span(values).subspan((begin + i) * kRanks, kRanks)); });
  });
}

TEST(AllReduceRing, CountsExactlyWhenTheChunksAreEven) {
  run_ranks(4, patient_options(), [](Group& group) {
    std::vector<float> values(1000, 1);
    group.all_reduce_ring(values);
    EXPECT_EQ(group.counters().bytes, 2 * 3 * 1000 / 4 * 4);
  });
}

// --- many calls ---

// Kinds, sizes, roots and layouts drawn from one seed by all ranks; whole numbers make every sum exact.
TEST(Sequence, TenThousandCallsOfRandomKindsAndSizes) {
  constexpr int kRanks = 3;
  LocalGroupOptions options = patient_options();
  options.one_shot_bytes = 2048;  // so that both paths alternate
  run_ranks(kRanks, options, [](Group& group) {
    std::mt19937 random(7);
    const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
    const int rank = group.rank();
    for (int call = 0; call < 10'000; ++call) {
      const auto length = static_cast<size_t>(draw(8) == 0 ? draw(1500) : draw(60));
      const int root = draw(kRanks);
      const auto counts = uneven_counts(length, kRanks);
      const size_t my_count = counts[static_cast<size_t>(rank)];
      auto values = vector_of(rank + call, length);
      const auto expected_sum = [&](size_t i) {
        return element(call, i) + element(call + 1, i) + element(call + 2, i);
      };
      const auto check_parts = [&](std::span<const float> all) {
        for (int r = 0; r < kRanks; ++r) {
          expect_elements(all.subspan(begin_of(counts, r), counts[static_cast<size_t>(r)]),
                          [&](size_t i) { return element(r + call, i); });
        }
      };
      group.at({call, "random"});
      switch (draw(8)) {
        case 0:
          group.all_reduce(one_leaf_per_rank(kRanks), values, values);
          expect_elements(values, expected_sum);
          break;
        case 1:
          group.all_reduce_ring(values);
          expect_elements(values, expected_sum);
          break;
        case 2: {
          std::vector<float> all(length);
          group.all_gather(std::span(values).first(my_count), counts, all);
          check_parts(all);
          break;
        }
        case 3: {
          std::vector<float> mine(my_count);
          group.reduce_scatter(values, counts, mine);
          const size_t begin = begin_of(counts, rank);
          expect_elements(mine, [&](size_t i) { return expected_sum(begin + i); });
          break;
        }
        case 4: {
          std::vector<float> all(rank == root ? length : 0);
          group.gather(std::span(values).first(my_count), counts, all, root);
          if (rank == root) check_parts(all);
          break;
        }
        case 5:
          group.broadcast(std::as_writable_bytes(std::span(values)), root);
          expect_elements(values, [&](size_t i) { return element(root + call, i); });
          break;
        case 6:
          group.barrier();
          break;
        case 7:
          if (rank == root) group.send(std::as_bytes(std::span(values)), (root + 1) % kRanks);
          if (rank == (root + 1) % kRanks) {
            group.receive(std::as_writable_bytes(std::span(values)), root);
            expect_elements(values, [&](size_t i) { return element(root + call, i); });
          }
          break;
      }
      if (testing::Test::HasFailure()) return group.abort("a call gave wrong values");
    }
  });
}

TEST(Counters, CountCallsAndTheContributionOfEachRank) {
  run_ranks(2, patient_options(), [](Group& group) {
    std::vector<float> values(10, 1), all(20), out(10);
    const std::vector<size_t> counts{10, 10};
    group.all_reduce(one_leaf_per_rank(2), values, out);
    EXPECT_EQ(group.counters().bytes, 40);
    group.all_gather(values, counts, all);
    EXPECT_EQ(group.counters().bytes, 80);
    group.reduce_scatter(all, counts, values);
    EXPECT_EQ(group.counters().bytes, 160);
    group.broadcast(std::as_writable_bytes(std::span(values)), 1);
    EXPECT_EQ(group.counters().bytes, group.rank() == 1 ? 200 : 160);
    group.barrier();
    EXPECT_EQ(group.counters().calls, 5);
    EXPECT_LE(group.counters().wait_ns, group.counters().comm_ns);
  });
}

// The lower bound only: a loaded machine may always take longer.
TEST(Delay, IsAddedOnceToEveryCollectiveThatHasASite) {
  LocalGroupOptions options = patient_options();
  options.delay = std::chrono::milliseconds(3);
  run_ranks(2, options, [](Group& group) {
    for (int layer = 0; layer < 10; ++layer) {
      group.at({layer, "attn_output"});
      group.barrier();
    }
    EXPECT_GE(group.counters().comm_ns, 30'000'000);
  });
}

TEST(Delay, IsNotAddedWithoutASite) {
  LocalGroupOptions options = patient_options();
  options.delay = std::chrono::seconds(20);  // far beyond what a barrier takes anywhere
  run_ranks(2, options, [](Group& group) {
    group.at({0, "attn_output"});
    group.at({});
    group.barrier();
    EXPECT_LT(group.counters().comm_ns, 20'000'000'000);
  });
}

TEST(GroupOfOne, MovesNothingAndJoinsItsOwnNodes) {
  run_ranks(1, patient_options(), [](Group& group) {
    const std::vector<Range> run{{0, 3}};
    const std::vector<float> leaves{1, 2, 10, 20, 100, 200};  // [3, 2]
    std::vector<float> out(2);
    group.all_reduce(tree_layout(3, run, /*every_leaf=*/true), leaves, out);
    EXPECT_EQ(out, (std::vector<float>{111, 222}));
    EXPECT_EQ(group.counters().calls, 1);
    EXPECT_EQ(group.counters().bytes, 0);
  });
}

}  // namespace
}  // namespace lockstep
