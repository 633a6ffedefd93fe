// Plans for machines that nobody has at hand, described to hwloc: which nodes and processors each rank gets, as text.
#include "base/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/error.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The processors of a machine without some of them.
std::vector<int> all_but(int count, const std::set<int>& removed) {
  std::vector<int> processors;
  for (int i = 0; i < count; ++i) {
    if (!removed.contains(i)) processors.push_back(i);
  }
  return processors;
}

// Hyper-threads of core n are 2n and 2n + 1; nodes hold cores 0-3 and 4-7.
Topology two_nodes(const std::optional<std::vector<int>>& allowed = {}) {
  return parse_topology("numa:2 core:4 pu:2", allowed);
}

// Two sockets of three sub-NUMA nodes with 43, 43, 42, 43, 43, 42 cores, numbered through; no hyper-threads.
Topology six_nodes() {
  return parse_topology("pack:2 numa:3 core:43 pu:1", all_but(6 * 43, {3 * 43 - 1, 6 * 43 - 1}));
}

std::string plan(const Topology& topology, int ranks, int threads = 0) {
  return describe(place(topology, {ranks, threads, true}));
}

TEST(Placement, OneRankANode) {
  EXPECT_EQ(plan(two_nodes(), 2),
            "rank 0: node 0, 4 threads on processors 0,2,4,6; rank 1: node 1, 4 threads on processors 8,10,12,14");
  EXPECT_EQ(plan(two_nodes(), 2, 6),
            "rank 0: node 0, 6 threads on processors 0,2,4,6,1,5; rank 1: node 1, 6 threads on processors "
            "8,10,12,14,9,13");
  EXPECT_EQ(plan(two_nodes(), 2, 8),
            "rank 0: node 0, 8 threads on processors 0,2,4,6,1,3,5,7; rank 1: node 1, 8 threads on processors "
            "8,10,12,14,9,11,13,15");
}

TEST(Placement, FewThreadsAreSpreadOverTheCores) {
  EXPECT_EQ(plan(two_nodes(), 2, 1),
            "rank 0: node 0, 1 thread on processor 0; rank 1: node 1, 1 thread on processor 8");
  EXPECT_EQ(plan(two_nodes(), 2, 3),
            "rank 0: node 0, 3 threads on processors 0,2,4; rank 1: node 1, 3 threads on processors 8,10,12");
  EXPECT_EQ(plan(two_nodes(), 1, 2), "rank 0: nodes 0-1, 2 threads on processors 0,8");
}

TEST(Placement, UnevenNodes) {
  const Topology topology = six_nodes();
  EXPECT_EQ(topology.cores(), 256);
  EXPECT_EQ(plan(topology, 6),
            "rank 0: node 0, 43 threads on processors 0-42; rank 1: node 1, 43 threads on processors 43-85; "
            "rank 2: node 2, 42 threads on processors 86-127; rank 3: node 3, 43 threads on processors 129-171; "
            "rank 4: node 4, 43 threads on processors 172-214; rank 5: node 5, 42 threads on processors 215-256");
}

TEST(Placement, ARankOverThreeNodes) {
  EXPECT_EQ(plan(six_nodes(), 2),
            "rank 0: nodes 0-2, 128 threads on processors 0-127; rank 1: nodes 3-5, 128 threads on processors 129-256");
  EXPECT_EQ(plan(six_nodes(), 2, 3),
            "rank 0: nodes 0-2, 3 threads on processors 0,42,85; rank 1: nodes 3-5, 3 threads on processors "
            "129,171,214");
}

TEST(Placement, RanksOverRunsOfNodesOfAboutEqualSize) {
  EXPECT_EQ(plan(six_nodes(), 3, 1),
            "rank 0: nodes 0-1, 1 thread on processor 0; rank 1: nodes 2-3, 1 thread on processor 86; "
            "rank 2: nodes 4-5, 1 thread on processor 172");
  // 2, 2, 2 and 6 cores: two ranks take 6 each, three take 4, 2 and 6.
  const Topology growing =
      parse_topology("numa:4 core:6 pu:1", all_but(24, {2, 3, 4, 5, 8, 9, 10, 11, 14, 15, 16, 17}));
  EXPECT_EQ(plan(growing, 2),
            "rank 0: nodes 0-2, 6 threads on processors 0-1,6-7,12-13; rank 1: node 3, 6 threads on processors 18-23");
  EXPECT_EQ(plan(growing, 3),
            "rank 0: nodes 0-1, 4 threads on processors 0-1,6-7; rank 1: node 2, 2 threads on processors 12-13; "
            "rank 2: node 3, 6 threads on processors 18-23");
  // The first node alone is more than half of all, and the last rank still gets one.
  const Topology falling = parse_topology("numa:3 core:8 pu:1", std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 16});
  EXPECT_EQ(plan(falling, 2),
            "rank 0: node 0, 8 threads on processors 0-7; rank 1: nodes 1-2, 2 threads on processors 8,16");
}

TEST(Placement, HalfTheProcessorsRemoved) {
  // One hyper-thread of each core, the second node, every other core, and what a container got at random.
  EXPECT_EQ(plan(two_nodes(all_but(16, {0, 2, 4, 6, 8, 10, 12, 14})), 2),
            "rank 0: node 0, 4 threads on processors 1,3,5,7; rank 1: node 1, 4 threads on processors 9,11,13,15");
  EXPECT_EQ(plan(two_nodes(all_but(16, {0, 1, 2, 3, 4, 5, 6, 7})), 1),
            "rank 0: node 1, 4 threads on processors 8,10,12,14");
  EXPECT_EQ(plan(two_nodes(all_but(16, {2, 3, 6, 7, 10, 11, 14, 15})), 2, 4),
            "rank 0: node 0, 4 threads on processors 0,4,1,5; rank 1: node 1, 4 threads on processors 8,12,9,13");
  EXPECT_EQ(plan(two_nodes(std::vector<int>{1, 2, 3, 6, 9, 10, 13, 15}), 2),
            "rank 0: node 0, 3 threads on processors 1-2,6; rank 1: node 1, 4 threads on processors 9-10,13,15");
}

TEST(Placement, NodesWithoutAllowedProcessorsAreLeftOut) {
  const Topology topology = parse_topology("numa:4 core:2 pu:1", std::vector<int>{2, 3, 7});
  ASSERT_EQ(topology.nodes.size(), 2U);
  EXPECT_EQ(topology.nodes[0].os_index, 1);
  EXPECT_EQ(topology.nodes[1].os_index, 3);
  EXPECT_EQ(plan(topology, 2), "rank 0: node 1, 2 threads on processors 2-3; rank 1: node 3, 1 thread on processor 7");
}

TEST(Placement, MoreRanksThanNodesDivideCores) {
  const Topology one_node = parse_topology("numa:1 core:4 pu:1");
  EXPECT_EQ(plan(one_node, 1), "rank 0: node 0, 4 threads on processors 0-3");
  EXPECT_EQ(plan(one_node, 2),
            "rank 0: node 0, 2 threads on processors 0-1; rank 1: node 0, 2 threads on processors 2-3");
  EXPECT_EQ(plan(one_node, 3),
            "rank 0: node 0, 1 thread on processor 0; rank 1: node 0, 1 thread on processor 1; "
            "rank 2: node 0, 2 threads on processors 2-3");
  // Hyper-threads of one core stay with one rank.
  EXPECT_EQ(plan(two_nodes(), 4, 4),
            "rank 0: node 0, 4 threads on processors 0,2,1,3; rank 1: node 0, 4 threads on processors 4,6,5,7; "
            "rank 2: node 1, 4 threads on processors 8,10,9,11; rank 3: node 1, 4 threads on processors 12,14,13,15");
  // A further rank goes where most cores are.
  const Topology uneven = parse_topology("numa:2 core:6 pu:1", std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(plan(uneven, 4),
            "rank 0: node 0, 2 threads on processors 0-1; rank 1: node 0, 2 threads on processors 2-3; "
            "rank 2: node 0, 2 threads on processors 4-5; rank 3: node 1, 2 threads on processors 6-7");
}

TEST(Placement, MoreRanksThanCoresDivideHyperThreads) {
  const Topology topology = parse_topology("numa:1 core:2 pu:2");
  const Placement placement = place(topology, {4, 0, true});
  EXPECT_EQ(describe(placement),
            "rank 0: node 0, 1 thread on processor 0; rank 1: node 0, 1 thread on processor 1; "
            "rank 2: node 0, 1 thread on processor 2; rank 3: node 0, 1 thread on processor 3");
  EXPECT_FALSE(placement.crowded);
}

TEST(Placement, MoreRanksThanProcessorsShareTheNode) {
  const Placement placement = place(parse_topology("numa:1 core:2 pu:1"), {3, 0, true});
  EXPECT_EQ(describe(placement), "ranks 0-2: node 0, 1 thread each sharing processors 0-1");
  EXPECT_EQ(placement.ranks[2].threads, std::vector<std::vector<int>>(1, {0, 1}));
  EXPECT_TRUE(placement.crowded);
  EXPECT_EQ(plan(parse_topology("numa:1 core:2 pu:1", std::vector<int>{1}), 2),
            "ranks 0-1: node 0, 1 thread each sharing processor 1");
  EXPECT_EQ(
      plan(parse_topology("numa:2 core:1 pu:1"), 5, 2),
      "ranks 0-2: node 0, 2 threads each sharing processor 0; ranks 3-4: node 1, 2 threads each sharing processor 1");
}

TEST(Placement, MoreThreadsThanProcessorsShareThoseOfTheirRank) {
  const Topology topology = parse_topology("numa:2 core:2 pu:1");
  const Placement too_many = place(topology, {2, 3, true});
  EXPECT_EQ(describe(too_many),
            "rank 0: node 0, 3 threads sharing processors 0-1; rank 1: node 1, 3 threads sharing processors 2-3");
  EXPECT_TRUE(too_many.crowded);
  EXPECT_EQ(too_many.ranks[1].threads, std::vector<std::vector<int>>(3, {2, 3}));
  EXPECT_EQ(too_many.threads(), 6);
  EXPECT_EQ(plan(topology, 2, 2),
            "rank 0: node 0, 2 threads on processors 0-1; rank 1: node 1, 2 threads on processors 2-3");
  // Enough for all together, but not for this rank.
  const Placement uneven = place(parse_topology("numa:2 core:4 pu:1", std::vector<int>{0, 4, 5, 6}), {2, 2, true});
  EXPECT_EQ(describe(uneven),
            "rank 0: node 0, 2 threads sharing processor 0; rank 1: node 1, 2 threads on processors 4-5");
  EXPECT_TRUE(uneven.crowded);
}

TEST(Placement, NothingIsBoundWhenNotWanted) {
  const Placement placement = place(two_nodes(), {2, 0, false});
  EXPECT_EQ(describe(placement), "8 threads, not pinned");
  EXPECT_EQ(placement.ranks[0].threads, std::vector<std::vector<int>>(4));
  EXPECT_FALSE(placement.crowded);
  EXPECT_TRUE(place(two_nodes(), {2, 9, false}).crowded);
}

// Whatever the machine and the numbers: only allowed processors, one a thread where they suffice.
TEST(Placement, StaysInsideTheAllowedProcessors) {
  const std::vector<int> allowed{1, 2, 3, 5, 8, 13, 14, 15, 21, 22};
  const Topology topology = parse_topology("numa:3 core:4 pu:2", allowed);
  ASSERT_EQ(topology.processors(), 10);
  for (int ranks = 1; ranks <= 12; ++ranks) {
    for (int threads = 0; threads <= 12; ++threads) {
      const Placement placement = place(topology, {ranks, threads, true});
      ASSERT_EQ(placement.ranks.size(), static_cast<size_t>(ranks));
      std::multiset<int> used;
      for (const RankPlacement& rank : placement.ranks) {
        ASSERT_FALSE(rank.nodes.empty());
        ASSERT_FALSE(rank.threads.empty());
        if (threads > 0) {
          ASSERT_EQ(rank.threads.size(), static_cast<size_t>(threads));
        }
        for (const auto& thread : rank.threads) {
          ASSERT_FALSE(thread.empty());
          ASSERT_THAT(allowed, testing::IsSupersetOf(thread));
          ASSERT_THAT(rank.processors, testing::IsSupersetOf(thread));
          used.insert(thread.begin(), thread.end());
        }
      }
      const bool alone = std::set<int>(used.begin(), used.end()).size() == used.size();
      ASSERT_EQ(placement.crowded, !alone) << ranks << " ranks of " << threads;
    }
  }
}

TEST(Topology, ProcessorsOfTwoKindsOfMemoryBelongToTheFirst) {
  const Topology topology = parse_topology("pack:2 [numa] [numa] core:2 pu:1");
  ASSERT_EQ(topology.nodes.size(), 2U);
  EXPECT_THAT(topology.nodes[0].cores, ElementsAre(std::vector<int>{0}, std::vector<int>{1}));
  EXPECT_THAT(topology.nodes[1].cores, ElementsAre(std::vector<int>{2}, std::vector<int>{3}));
}

TEST(Topology, IsReadFromXml) {
  // Hyper-threads numbered as most x86 machines do: the second ones after all first ones.
  const Topology topology = parse_topology(R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0xf" complete_cpuset="0xf" allowed_cpuset="0xf" nodeset="0x8"
          complete_nodeset="0x8" allowed_nodeset="0x8" gp_index="1">
    <object type="NUMANode" os_index="3" cpuset="0xf" complete_cpuset="0xf" nodeset="0x8" complete_nodeset="0x8"
            gp_index="2" local_memory="1073741824"/>
    <object type="Core" os_index="0" cpuset="0x5" complete_cpuset="0x5" nodeset="0x8" complete_nodeset="0x8" gp_index="3">
      <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x8" complete_nodeset="0x8" gp_index="4"/>
      <object type="PU" os_index="2" cpuset="0x4" complete_cpuset="0x4" nodeset="0x8" complete_nodeset="0x8" gp_index="5"/>
    </object>
    <object type="Core" os_index="1" cpuset="0xa" complete_cpuset="0xa" nodeset="0x8" complete_nodeset="0x8" gp_index="6">
      <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x8" complete_nodeset="0x8" gp_index="7"/>
      <object type="PU" os_index="3" cpuset="0x8" complete_cpuset="0x8" nodeset="0x8" complete_nodeset="0x8" gp_index="8"/>
    </object>
  </object>
</topology>)");
  ASSERT_EQ(topology.nodes.size(), 1U);
  EXPECT_EQ(topology.nodes[0].os_index, 3);
  EXPECT_THAT(topology.nodes[0].cores, ElementsAre(std::vector<int>{0, 2}, std::vector<int>{1, 3}));
  EXPECT_EQ(plan(topology, 1, 4), "rank 0: node 3, 4 threads on processors 0-3");
}

TEST(Topology, NonsenseIsRefused) {
  const auto message = [](const std::string& description, const std::optional<std::vector<int>>& allowed) {
    try {
      parse_topology(description, allowed);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message("numa:x", {}), HasSubstr("does not understand the topology 'numa:x'"));
  EXPECT_THAT(message("", {}), HasSubstr("does not understand"));
  EXPECT_THAT(message("numa:2 core:2 pu:1", std::vector<int>{4, 99}), HasSubstr("none of the allowed processors"));
}

}  // namespace
}  // namespace lockstep
