// What a process may run on: its memory nodes, their cores, and the processors of each core (hwloc). Processors and
// nodes have the numbers that the operating system gives them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// A NUMA (or sub-NUMA) node. A processor belongs to one node: where nodes share their processors (fast memory beside
// ordinary memory), to the first.
struct MemoryNode {
  int os_index = 0;
  std::vector<std::vector<int>> cores;  // the processors of each physical core: one, or its hyper-threads; never none

  int processors() const;
};

struct Topology {
  std::vector<MemoryNode> nodes;  // those with a processor, at least one; neighbours are near each other

  int cores() const;
  int processors() const;
};

// The machine this process runs on, as far as the calling thread may use it (affinity, cgroup). Throws Error(Io) when
// hwloc cannot read it.
Topology read_topology();

// A machine described to hwloc, by a synthetic description ("numa:2 core:4 pu:2") or by XML (it begins with '<'), as
// far as `allowed` goes; nothing: all of it. Throws Error(Malformed) for a description that hwloc refuses and
// Error(DoesNotFit) when no processor is left.
Topology parse_topology(const std::string& description, const std::optional<std::vector<int>>& allowed = {});

}  // namespace lockstep
