// The topology as hwloc sees it, restricted to the allowed processors.
#include "base/topology.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.h"

namespace lockstep {

Topology read_topology() {
  // Without /sys (a bare chroot) hwloc knows nothing and says so on standard error: one node, and what the scheduler
  // allows.
  if (!std::filesystem::exists("/sys/devices/system/cpu")) {
    cpu_set_t allowed;
    const bool known = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
    return {known ? CPU_COUNT(&allowed) : 1, 1};
  }
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) fail(ErrorKind::Io, "hwloc cannot start reading the machine's topology");
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(raw, &hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) fail(ErrorKind::Io, "hwloc cannot read the machine's topology");
  Topology result;
  // hwloc counts the processors of the machine that are allowed; the affinity of this process may be narrower.
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> allowed(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  if (hwloc_get_cpubind(raw, allowed.get(), HWLOC_CPUBIND_PROCESS) != 0) {
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(raw));
  }
  result.processors = std::max(1, hwloc_bitmap_weight(allowed.get()));
  int nodes = 0;
  const int all = hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < all; ++i) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(raw, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    if (node->cpuset != nullptr && hwloc_bitmap_intersects(node->cpuset, allowed.get()) != 0) ++nodes;
  }
  result.memory_nodes = std::max(1, nodes);
  return result;
}

}  // namespace lockstep
