// Dividing nodes, then cores, then hyper-threads among ranks, and a rank's processors among its threads.
#include "base/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <span>

#include "base/affinity.h"

namespace lockstep {
namespace {

using Cores = std::vector<std::vector<int>>;

// What one rank gets.
struct Territory {
  std::vector<int> nodes;
  Cores cores;
  bool shared = false;  // with other ranks
  int default_threads = 1;
};

int cores_of(const MemoryNode& node) {
  return static_cast<int>(node.cores.size());
}

// One rank, all of these nodes.
Territory join(std::span<const MemoryNode> nodes) {
  Territory territory;
  for (const MemoryNode& node : nodes) {
    territory.nodes.push_back(node.os_index);
    territory.cores.insert(territory.cores.end(), node.cores.begin(), node.cores.end());
  }
  territory.default_threads = static_cast<int>(territory.cores.size());
  return territory;
}

// At least as many nodes as ranks: each rank ends where the cores so far come nearest to its part of the whole.
std::vector<Territory> span_nodes(const Topology& topology, int ranks) {
  const std::span<const MemoryNode> nodes(topology.nodes);
  std::vector<Territory> territories;
  size_t begin = 0;
  int64_t cores = 0;  // in nodes before `end`
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t wanted = int64_t{topology.cores()} * (rank + 1);  // all numbers times `ranks`
    const auto distance = [&](int64_t sum) { return std::abs(sum * ranks - wanted); };
    const size_t last_end = nodes.size() - static_cast<size_t>(ranks - rank - 1);  // leaves a node to each that follows
    size_t end = begin + 1;
    cores += cores_of(nodes[begin]);
    while (end < last_end && distance(cores + cores_of(nodes[end])) < distance(cores)) cores += cores_of(nodes[end++]);
    territories.push_back(join(nodes.subspan(begin, end - begin)));
    begin = end;
  }
  return territories;
}

// The ranks of each node: one, and each further rank where it finds most cores.
std::vector<int> ranks_of_nodes(const Topology& topology, int ranks) {
  std::vector<int> counts(topology.nodes.size(), 1);
  for (int rank = static_cast<int>(counts.size()); rank < ranks; ++rank) {
    size_t best = 0;
    for (size_t i = 1; i < counts.size(); ++i) {
      const int64_t here = int64_t{cores_of(topology.nodes[i])} * (counts[best] + 1);
      if (here > int64_t{cores_of(topology.nodes[best])} * (counts[i] + 1)) best = i;
    }
    ++counts[best];
  }
  return counts;
}

void divide_node(const MemoryNode& node, int ranks, std::vector<Territory>& territories) {
  Cores pieces = node.cores;
  const bool by_cores = ranks <= cores_of(node);
  if (!by_cores) {
    pieces.clear();
    for (const auto& core : node.cores) {
      for (const int processor : core) pieces.push_back({processor});
    }
  }
  const auto count = static_cast<int>(pieces.size());
  for (int rank = 0; rank < ranks; ++rank) {
    Territory territory{{node.os_index}, node.cores, true, 1};
    if (ranks <= count) {
      territory.shared = false;
      territory.cores.assign(pieces.begin() + int64_t{count} * rank / ranks,
                             pieces.begin() + int64_t{count} * (rank + 1) / ranks);
      if (by_cores) territory.default_threads = static_cast<int>(territory.cores.size());
    }
    territories.push_back(std::move(territory));
  }
}

std::vector<Territory> divide(const Topology& topology, int ranks) {
  if (ranks <= static_cast<int>(topology.nodes.size())) return span_nodes(topology, ranks);
  std::vector<Territory> territories;
  const std::vector<int> counts = ranks_of_nodes(topology, ranks);
  for (size_t i = 0; i < counts.size(); ++i) divide_node(topology.nodes[i], counts[i], territories);
  return territories;
}

// One processor of each core, then a second of those that have one, and so on.
std::vector<int> in_order_of_use(const Cores& cores) {
  std::vector<int> processors;
  size_t most = 0;
  for (const auto& core : cores) most = std::max(most, core.size());
  for (size_t i = 0; i < most; ++i) {
    for (const auto& core : cores) {
      if (i < core.size()) processors.push_back(core[i]);
    }
  }
  return processors;
}

// One processor a thread: evenly spread over the cores, or each core and the rest evenly over the hyper-threads.
std::vector<std::vector<int>> one_each(const std::vector<int>& processors, size_t cores, size_t threads) {
  std::vector<std::vector<int>> result;
  const size_t first = std::min(threads, cores);
  for (size_t i = 0; i < first; ++i) result.push_back({processors[i * cores / first]});
  const size_t rest = threads - first;
  for (size_t i = 0; i < rest; ++i) result.push_back({processors[cores + i * (processors.size() - cores) / rest]});
  return result;
}

std::string processors(std::span<const int> numbers) {
  return fmt::format("{} {}", numbers.size() == 1 ? "processor" : "processors", format_processors(numbers));
}

bool alike(const RankPlacement& a, const RankPlacement& b) {
  return a.nodes == b.nodes && a.threads == b.threads;
}

// `count` ranks that are alike.
std::string describe(const RankPlacement& rank, size_t count) {
  const auto& threads = rank.threads;
  const bool share = count > 1 || threads[0].size() > 1 || (threads.size() > 1 && threads[0] == threads[1]);
  std::vector<int> pinned;
  for (const auto& thread : threads) pinned.insert(pinned.end(), thread.begin(), thread.end());
  return fmt::format("{} {}, {} {}{} {} {}", rank.nodes.size() == 1 ? "node" : "nodes", format_processors(rank.nodes),
                     threads.size(), threads.size() == 1 ? "thread" : "threads", count > 1 ? " each" : "",
                     share ? "sharing" : "on", processors(share ? rank.processors : pinned));
}

}  // namespace

int Placement::threads() const {
  size_t count = 0;
  for (const RankPlacement& rank : ranks) count += rank.threads.size();
  return static_cast<int>(count);
}

Placement place(const Topology& topology, const PlacementOptions& options) {
  assert(options.ranks >= 1 && options.threads >= 0 && !topology.nodes.empty());
  const std::vector<Territory> territories = divide(topology, options.ranks);
  int64_t all_threads = 0;
  for (const Territory& territory : territories) {
    all_threads += options.threads > 0 ? options.threads : territory.default_threads;
  }
  const bool too_many = all_threads > topology.processors();

  Placement placement;
  for (const Territory& territory : territories) {
    RankPlacement rank;
    rank.nodes = territory.nodes;
    rank.processors = in_order_of_use(territory.cores);
    const auto threads = static_cast<size_t>(options.threads > 0 ? options.threads : territory.default_threads);
    const bool share = too_many || territory.shared || threads > rank.processors.size();
    placement.crowded = placement.crowded || share;
    if (!options.pin) {
      rank.threads.resize(threads);
    } else if (share) {
      rank.threads.assign(threads, rank.processors);
    } else {
      rank.threads = one_each(rank.processors, territory.cores.size(), threads);
    }
    placement.ranks.push_back(std::move(rank));
  }
  return placement;
}

std::string describe(const Placement& placement) {
  const RankPlacement& first = placement.ranks.front();
  if (first.threads.front().empty()) {
    return fmt::format("{} threads, not pinned", placement.threads());
  }
  std::string text;
  const auto& ranks = placement.ranks;
  for (size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    while (end < ranks.size() && alike(ranks[begin], ranks[end])) ++end;
    fmt::format_to(std::back_inserter(text), "{}rank{} {}", text.empty() ? "" : "; ", end - begin > 1 ? "s" : "",
                   begin);
    if (end - begin > 1) fmt::format_to(std::back_inserter(text), "-{}", end - 1);
    fmt::format_to(std::back_inserter(text), ": {}", describe(ranks[begin], end - begin));
  }
  return text;
}

}  // namespace lockstep
