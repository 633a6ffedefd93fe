// The door of comm/: the collectives of one tensor-parallel group.
//
// A Group is one rank's end. Every rank calls the same collectives in the same order; lengths may differ by rank where
// the comment says so. A group of one is a no-op group, so no caller branches on size. comm/ moves floats and bytes and
// adds them in the order a TreeLayout prescribes; it does not know what they mean. docs/collectives.md lists the steps
// and the bytes of each algorithm.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/futex.h"
#include "base/trace.h"
#include "tensor/tensor.h"

namespace lockstep {

// What a rank has spent in collectives since the group was made. bytes: this rank's own contribution as the table of
// docs/collectives.md counts it. wait_ns is the part of comm_ns spent waiting for peers.
struct CommCounters {
  int64_t calls = 0;
  int64_t bytes = 0;
  int64_t comm_ns = 0;
  int64_t wait_ns = 0;
};

// Where in a step a collective stands; compared across ranks in checking mode and named in errors.
struct CommSite {
  int32_t layer = -1;     // -1: outside the layers
  const char* name = "";  // a string that outlives the group and its trace, such as "attn_output"
};

// Thread rules: a Group belongs to one thread (its rank's leader), except abort(), aborted() and tick(), which any
// thread may call. Every collective throws Error(RankFailed) once the group is aborted; the message names the rank that
// failed and its cause. A rank whose progress counter stands still for the stall limit while others wait for it is a
// stall; a rank that itself waits in a collective is not, and one that has nothing to do must tick all the same. Ranks
// that call different collectives, or disagree on lengths or steps, end the group with both values in the message.
// Collectives allocate no memory.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // The step that what follows belongs to; -1 before the first call. Compared across ranks by every collective but
  // send and receive, and named in errors.
  virtual void begin_step(int64_t step) = 0;
  // The site of the collectives that follow; at({}) when they belong to none.
  virtual void at(CommSite site) = 0;

  // Joins the nodes of all ranks in the order of `layout`. mine: [layout.nodes_of_rank[rank], count];
  // out: [count], the same bits on every rank. mine and out must not overlap, except that mine may begin at out when
  // this rank has one node or none.
  virtual void all_reduce(const TreeLayout& layout, std::span<const float> mine, std::span<float> out) = 0;
  // Ring all-reduce in place (reduce-scatter, then all-gather): 2 (N-1)/N of the bytes a rank; the bits depend on N.
  virtual void all_reduce_ring(std::span<float> values) = 0;
  // all is the concatenation of every rank's part: counts[r] floats of rank r.
  virtual void all_gather(std::span<const float> mine, std::span<const size_t> counts, std::span<float> all) = 0;
  // The sum over ranks (one_leaf_per_rank order); rank r receives chunk r, counts[r] floats.
  virtual void reduce_scatter(std::span<const float> values, std::span<const size_t> counts, std::span<float> mine) = 0;
  // Like all_gather, but only root's `all` is written (others may pass an empty span).
  virtual void gather(std::span<const float> mine, std::span<const size_t> counts, std::span<float> all, int root) = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual void barrier() = 0;
  // Returns when the receiver has the bytes; the two lengths must be equal.
  virtual void send(std::span<const std::byte> data, int to) = 0;
  virtual void receive(std::span<std::byte> data, int from) = 0;

  // Ends the group: every rank that waits or will wait throws an error that names this rank, its step and the cause.
  // The first cause wins.
  virtual void abort(const std::string& cause) noexcept = 0;
  virtual bool aborted() const noexcept = 0;
  // What those throw say: the rank that failed, its step, and its cause. Empty while the group lives.
  virtual std::string failure() const = 0;
  // Called for every work item, so that a long step is told from a stalled one; a relaxed increment.
  virtual void tick() noexcept = 0;

  virtual CommCounters counters() const = 0;
};

struct LocalGroupOptions {
  SpinPolicy spin = {};
  std::chrono::milliseconds stall{2000};
  int64_t one_shot_bytes = 64 * 1024;  // an all-reduce whose total input is at most this reads every peer at once
  bool check = false;                  // compare sites and divisions too, not only operations and lengths
  std::chrono::microseconds delay{0};  // added to the first collective after at() named a site; for tests
  // [ranks] or empty: where each rank's collectives and waits are traced, from the same readings of the clock as
  // CommCounters; nullptr for a rank that is not. They outlive the group.
  std::vector<TraceLane*> lanes = {};
};

// One group of `size` ranks whose ends share this process's memory: one-shot reads of the peers' buffers for small
// messages, work divided by columns among the ranks for large ones. [r] is for the thread of rank r.
std::vector<std::unique_ptr<Group>> make_local_group(int size, const LocalGroupOptions& options);

}  // namespace lockstep
