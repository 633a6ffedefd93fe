// Which memory nodes and processors each rank gets, and what each of its threads is pinned to: pure functions of the
// topology, so that machines nobody has at hand can be tested.
#pragma once

#include <string>
#include <vector>

#include "base/topology.h"

namespace lockstep {

struct PlacementOptions {
  int ranks = 1;
  int threads = 0;  // of each rank; 0: one on each physical core the rank has
  bool pin = true;  // false: threads run where the system puts them
};

// Processors and nodes by the operating system's numbers.
struct RankPlacement {
  std::vector<int> nodes;
  std::vector<int> processors;            // one of each core first, then the hyper-threads beside those
  std::vector<std::vector<int>> threads;  // [threads] what each is pinned to: one processor or all; empty: not pinned
};

struct Placement {
  std::vector<RankPlacement> ranks;
  bool crowded = false;  // some threads share processors: none may spin while it waits

  int threads() const;  // of all ranks
};

// Ranks stand in the order of the nodes. As many ranks as nodes: one each. Fewer: runs of neighbouring nodes with about
// equally many cores. More: nodes get ranks by their cores, and divide their cores among them; a node with more ranks
// than cores divides its hyper-threads, and one with more ranks than those is shared whole by its ranks.
//
// A thread gets a processor to itself, spread evenly over the rank's cores, hyper-threads last. Where a rank has more
// threads than processors, they share the rank's; where all ranks together have more threads than there are processors,
// all threads share those of their rank.
Placement place(const Topology& topology, const PlacementOptions& options);

// One line: "rank 0: node 0, 4 threads on processors 0-3; rank 1: node 1, 4 threads on processors 4-7", where thread 0
// has the first processor listed, thread 1 the second, and so on; or "ranks 0-2: node 0, 1 thread each sharing
// processors 0-1".
std::string describe(const Placement& placement);

}  // namespace lockstep
