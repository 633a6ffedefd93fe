// What this process may run on: processors of its allowed set and the memory nodes they belong to (hwloc).
#pragma once

namespace lockstep {

struct Topology {
  int processors = 1;    // logical processors this process may use
  int memory_nodes = 1;  // NUMA (or sub-NUMA) nodes that have at least one of them
};

// Reads the machine this process runs on; throws Error(Io) when hwloc cannot.
Topology read_topology();

}  // namespace lockstep
