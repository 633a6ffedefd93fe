// The topology as hwloc sees it, cut down to the allowed processors.
#include "base/topology.h"

#include <hwloc.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string_view>

#include "base/affinity.h"
#include "base/error.h"
#include "base/quoted.h"

namespace lockstep {
namespace {

using Handle = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

Handle start() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) fail(ErrorKind::Io, "hwloc cannot start reading the machine's topology");
  return {raw, &hwloc_topology_destroy};
}

// The processors inside the node that are still in `free`, by core; they are taken out of it.
std::vector<std::vector<int>> take_cores(hwloc_topology_t topology, hwloc_obj_t node, std::set<int>& free) {
  std::vector<std::vector<int>> cores;
  hwloc_obj_t last_core = nullptr;
  hwloc_obj_t pu = nullptr;
  while ((pu = hwloc_get_next_obj_inside_cpuset_by_type(topology, node->cpuset, HWLOC_OBJ_PU, pu)) != nullptr) {
    const int processor = static_cast<int>(pu->os_index);
    if (free.erase(processor) == 0) continue;
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
    if (core == nullptr || core != last_core) cores.emplace_back();
    cores.back().push_back(processor);
    last_core = core;
  }
  return cores;
}

// The nodes that hold processors of `free`, which are taken out of it.
Topology take_nodes(hwloc_topology_t topology, std::set<int>& free) {
  Topology result;
  const int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < nodes; ++i) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    std::vector<std::vector<int>> cores = take_cores(topology, node, free);
    if (!cores.empty()) result.nodes.push_back({static_cast<int>(node->os_index), std::move(cores)});
  }
  return result;
}

// What is known without hwloc: one node, a core each.
Topology one_node(const std::set<int>& processors) {
  MemoryNode node;
  for (const int processor : processors) node.cores.push_back({processor});
  return {{std::move(node)}};
}

std::set<int> every_processor(hwloc_topology_t topology) {
  std::set<int> processors;
  hwloc_obj_t pu = nullptr;
  while ((pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != nullptr) {
    processors.insert(static_cast<int>(pu->os_index));
  }
  return processors;
}

}  // namespace

int MemoryNode::processors() const {
  size_t count = 0;
  for (const auto& core : cores) count += core.size();
  return static_cast<int>(count);
}

int Topology::cores() const {
  size_t count = 0;
  for (const MemoryNode& node : nodes) count += node.cores.size();
  return static_cast<int>(count);
}

int Topology::processors() const {
  int count = 0;
  for (const MemoryNode& node : nodes) count += node.processors();
  return count;
}

Topology read_topology() {
  const std::vector<int> allowed = allowed_processors();
  const std::set<int> all(allowed.begin(), allowed.end());
  // Without /sys (a bare chroot) hwloc knows nothing and says so on standard error.
  if (!std::filesystem::exists("/sys/devices/system/cpu")) return one_node(all);
  const Handle topology = start();
  if (hwloc_topology_load(topology.get()) != 0) fail(ErrorKind::Io, "hwloc cannot read the machine's topology");
  std::set<int> free = all;
  Topology result = take_nodes(topology.get(), free);
  return result.nodes.empty() ? one_node(all) : result;
}

Topology parse_topology(const std::string& description, const std::optional<std::vector<int>>& allowed) {
  const Handle topology = start();
  const int set = description.starts_with('<') ? hwloc_topology_set_xmlbuffer(topology.get(), description.c_str(),
                                                                              static_cast<int>(description.size()) + 1)
                                               : hwloc_topology_set_synthetic(topology.get(), description.c_str());
  if (set != 0 || hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::Malformed, "hwloc does not understand the topology {}", in_quotes(description));
  }
  std::set<int> free = allowed ? std::set<int>(allowed->begin(), allowed->end()) : every_processor(topology.get());
  Topology result = take_nodes(topology.get(), free);
  if (result.nodes.empty()) {
    fail(ErrorKind::DoesNotFit, "none of the allowed processors is in the topology {}", in_quotes(description));
  }
  return result;
}

}  // namespace lockstep
