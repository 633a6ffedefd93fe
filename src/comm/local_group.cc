// The collectives of a local group. Each is a meeting, then plain reads of what the others have posted; those that let
// peers read the caller's own memory end with a second meeting, so that nobody returns while that memory is read.
#include "comm/local_group.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "base/error.h"

namespace lockstep {
namespace {

size_t sum(std::span<const size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// The begin of part `part` when [0, length) is divided into `parts`, each boundary a multiple of `multiple`.
size_t part_begin(size_t length, int part, int parts, size_t multiple = 1) {
  if (part == parts) return length;
  return length / multiple * static_cast<size_t>(part) / static_cast<size_t>(parts) * multiple;
}

// Waits without keeping the processor, except for the last moments, which a sleep would overshoot.
void pass_time(std::chrono::microseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  constexpr std::chrono::microseconds overshoot{150};
  if (time > overshoot) std::this_thread::sleep_until(until - overshoot);
  while (std::chrono::steady_clock::now() < until) {
  }
}

}  // namespace

class LocalGroup::Call {
 public:
  Call(LocalGroup& group, Op op, size_t bytes)
      : group_(group), begin_(StallWatch::Clock::now()), zone_(group.zone(zone_of(op), begin_)) {
    group.end_if_aborted();
    group.op_ = op;
    group.tick();
    ++group.counters_.calls;
    if (group.size_ == 1) return;
    group.counters_.bytes += static_cast<int64_t>(bytes);
    if (std::exchange(group.delay_due_, false)) pass_time(group.state_->options().delay);
  }
  ~Call() {
    group_.tick();
    group_.op_ = Op::None;
    const auto now = StallWatch::Clock::now();
    zone_.end(now);
    group_.counters_.comm_ns += std::chrono::nanoseconds(now - begin_).count();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  LocalGroup& group_;
  const StallWatch::Clock::time_point begin_;
  Zone zone_;
};

LocalGroup::LocalGroup(std::shared_ptr<LocalState> state, int rank)
    : state_(std::move(state)),
      rank_(rank),
      size_(state_->size()),
      lane_(state_->options().lanes.empty() ? nullptr : state_->options().lanes[static_cast<size_t>(rank)]),
      sum_of_ranks_(one_leaf_per_rank(size_)),
      watch_(*state_, rank, look_interval(state_->options().stall)),
      inputs_(static_cast<size_t>(size_)) {}

void LocalGroup::at(CommSite site) {
  site_ = site;
  delay_due_ = site.name[0] != '\0' && state_->options().delay.count() > 0;
  me().layer.store(site.layer, std::memory_order_relaxed);
  me().site.store(site.name);
}

void LocalGroup::abort(const std::string& cause) noexcept {
  try {
    state_->abort(fmt::format("rank {} failed{}: {}", rank_, at_step(state_->step_of(rank_)), cause));
  } catch (...) {
    state_->abort({});  // no memory for the cause: the group ends all the same
  }
}

std::span<const float* const> LocalGroup::inputs() {
  for (int peer = 0; peer < size_; ++peer) {
    inputs_[static_cast<size_t>(peer)] = static_cast<const float*>(post_of(peer).in);
  }
  return inputs_;
}

void LocalGroup::all_reduce(const TreeLayout& layout, std::span<const float> mine, std::span<float> out) {
  const Call call(*this, Op::AllReduce, mine.size_bytes());
  assert(layout.nodes_of_rank.size() == static_cast<size_t>(size_));
  const size_t count = out.size();
  const auto floats_of = [&](int r) {
    return static_cast<size_t>(layout.nodes_of_rank[static_cast<size_t>(r)]) * count;
  };
  require_length("all_reduce input", mine.size(), floats_of(rank_));
  if (size_ == 1) {
    const float* const nodes = mine.data();
    return joiner_.join(layout, {&nodes, 1}, count, 0, count, out.data());
  }

  const bool one_shot = is_small(static_cast<size_t>(layout.total_nodes()) * count * sizeof(float));
  meet({.op = Op::AllReduce,
        .length = count,
        .given = mine.size(),
        .shape = shape_of(layout),
        .in = offer(std::as_bytes(mine), one_shot),
        .out = out.data()});
  for (int peer = 0; peer < size_; ++peer) require_given(peer, floats_of(peer));
  if (one_shot) return joiner_.join(layout, inputs(), count, 0, count, out.data());

  // Each rank finishes the tree for its share of the columns, then everybody collects the shares. Only `out` of the
  // share's owner is written before the meeting, which is why an input may lie at the output's place.
  constexpr size_t kLine = 16;  // floats of a cache line: two ranks never write to the same
  const auto begin_of = [&](int r) { return part_begin(count, r, size_, kLine); };
  {
    const Reading reading(*state_, rank_);
    joiner_.join(layout, inputs(), count, begin_of(rank_), begin_of(rank_ + 1), out.data());
  }
  meet_again();
  {
    const Reading reading(*state_, rank_);
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;  // each begins with another peer, to spread the load on memory
      const size_t begin = begin_of(peer);
      const auto* from = static_cast<const float*>(post_of(peer).out);
      copy_bytes(out.data() + begin, from + begin, (begin_of(peer + 1) - begin) * sizeof(float));
      tick();
    }
  }
  meet_again();
}

void LocalGroup::all_reduce_ring(std::span<float> values) {
  const auto begin_of = [&](int chunk) { return part_begin(values.size(), chunk, size_); };
  const auto size_of = [&](int chunk) { return begin_of(chunk + 1) - begin_of(chunk); };
  // Over the 2 (N-1) steps a rank takes every chunk twice from its left neighbour, but for its own and the next once.
  const size_t taken = 2 * values.size() - size_of(rank_) - size_of((rank_ + 1) % size_);
  const Call call(*this, Op::AllReduceRing, taken * sizeof(float));
  if (size_ == 1) return;

  meet({.op = Op::AllReduceRing, .length = values.size(), .in = values.data()});
  const int left = (rank_ + size_ - 1) % size_;
  const auto* from = static_cast<const float*>(post_of(left).in);
  float* own = values.data();
  // At step s of either half, rank r takes the chunk that its left neighbour finished at step s - 1. The neighbour does
  // not write that chunk again before this rank has read it: its next write to it waits, around the ring, for this
  // step.
  for (int step = 0; step < 2 * (size_ - 1); ++step) {
    wait_for_arrival(left);
    {
      const Reading reading(*state_, rank_);
      const bool reducing = step < size_ - 1;
      const int chunk = reducing ? (rank_ - 1 - step + size_) % size_ : (rank_ - (step - (size_ - 1)) + size_) % size_;
      const size_t begin = begin_of(chunk);
      const size_t end = begin_of(chunk + 1);
      if (reducing) {
        for (size_t i = begin; i < end; ++i) own[i] = from[i] + own[i];
      } else {
        copy_bytes(own + begin, from + begin, (end - begin) * sizeof(float));
      }
    }
    arrive();
    tick();
  }
  wait_for_everybody();
}

void LocalGroup::collect(std::span<const float> mine, std::span<const size_t> counts, std::span<float> all) {
  const Reading reading(*state_, rank_);
  size_t begin = 0;
  for (int peer = 0; peer < size_; ++peer) {
    const size_t count = counts[static_cast<size_t>(peer)];
    copy_bytes(all.data() + begin, peer == rank_ ? mine.data() : post_of(peer).in, count * sizeof(float));
    begin += count;
    tick();
  }
}

void LocalGroup::all_gather(std::span<const float> mine, std::span<const size_t> counts, std::span<float> all) {
  const Call call(*this, Op::AllGather, mine.size_bytes());
  assert(counts.size() == static_cast<size_t>(size_));
  const size_t total = sum(counts);
  require_length("all_gather input", mine.size(), counts[static_cast<size_t>(rank_)]);
  require_length("all_gather output", all.size(), total);
  if (size_ == 1) return copy_bytes(all.data(), mine.data(), mine.size_bytes());

  const bool staged = is_small(total * sizeof(float));
  meet({.op = Op::AllGather,
        .length = total,
        .given = mine.size(),
        .shape = shape_of(counts),
        .in = offer(std::as_bytes(mine), staged)});
  for (int peer = 0; peer < size_; ++peer) require_given(peer, counts[static_cast<size_t>(peer)]);
  collect(mine, counts, all);
  if (!staged) meet_again();
}

void LocalGroup::reduce_scatter(std::span<const float> values, std::span<const size_t> counts, std::span<float> mine) {
  const Call call(*this, Op::ReduceScatter, values.size_bytes());
  assert(counts.size() == static_cast<size_t>(size_));
  const size_t total = sum(counts);
  const size_t begin = sum(counts.first(static_cast<size_t>(rank_)));
  const size_t count = counts[static_cast<size_t>(rank_)];
  require_length("reduce_scatter input", values.size(), total);
  require_length("reduce_scatter output", mine.size(), count);
  if (size_ == 1) return copy_bytes(mine.data(), values.data(), values.size_bytes());

  const bool staged = is_small(static_cast<size_t>(size_) * total * sizeof(float));
  meet({.op = Op::ReduceScatter,
        .length = total,
        .given = total,
        .shape = shape_of(counts),
        .in = offer(std::as_bytes(values), staged)});
  for (int peer = 0; peer < size_; ++peer) require_given(peer, total);
  {
    // Columns are counted from this rank's chunk on, so that they are those of `mine`.
    const Reading reading(*state_, rank_);
    for (int peer = 0; peer < size_; ++peer) {
      inputs_[static_cast<size_t>(peer)] = static_cast<const float*>(post_of(peer).in) + begin;
    }
    joiner_.join(sum_of_ranks_, inputs_, total, 0, count, mine.data());
  }
  if (!staged) meet_again();
}

void LocalGroup::gather(std::span<const float> mine, std::span<const size_t> counts, std::span<float> all, int root) {
  const Call call(*this, Op::Gather, mine.size_bytes());
  assert(counts.size() == static_cast<size_t>(size_) && 0 <= root && root < size_);
  const size_t total = sum(counts);
  require_length("gather input", mine.size(), counts[static_cast<size_t>(rank_)]);
  if (rank_ == root) require_length("gather output", all.size(), total);
  if (size_ == 1) return copy_bytes(all.data(), mine.data(), mine.size_bytes());

  const bool staged = is_small(total * sizeof(float));
  meet({.op = Op::Gather,
        .root = root,
        .length = total,
        .given = mine.size(),
        .shape = shape_of(counts),
        .in = offer(std::as_bytes(mine), staged)});
  for (int peer = 0; peer < size_; ++peer) require_given(peer, counts[static_cast<size_t>(peer)]);
  if (rank_ == root) collect(mine, counts, all);
  if (!staged) meet_again();
}

void LocalGroup::broadcast(std::span<std::byte> data, int root) {
  const Call call(*this, Op::Broadcast, rank_ == root ? data.size() : 0);
  assert(0 <= root && root < size_);
  if (size_ == 1) return;

  const bool staged = is_small(data.size());
  meet({.op = Op::Broadcast, .root = root, .length = data.size(), .in = rank_ == root ? offer(data, staged) : nullptr});
  if (rank_ != root) {
    const Reading reading(*state_, rank_);
    copy_bytes(data.data(), post_of(root).in, data.size());
  }
  if (!staged) meet_again();
}

void LocalGroup::barrier() {
  const Call call(*this, Op::Barrier, 0);
  if (size_ > 1) meet({.op = Op::Barrier});
}

void LocalGroup::send(std::span<const std::byte> data, int to) {
  const Call call(*this, Op::Send, data.size());
  assert(0 <= to && to < size_ && to != rank_);
  Mailbox& box = state_->mailbox(rank_, to);
  box.data = data.data();
  box.bytes = data.size();
  const uint32_t message = count_of(box.posted.add(kOne));
  box.posted.wake_all();
  wait_for(box.taken, Waiting::Kind::Taken, to, message);
}

void LocalGroup::receive(std::span<std::byte> data, int from) {
  const Call call(*this, Op::Receive, 0);
  assert(0 <= from && from < size_ && from != rank_);
  Mailbox& box = state_->mailbox(from, rank_);
  const uint32_t message = count_of(box.taken.load()) + kOne;
  wait_for(box.posted, Waiting::Kind::Posted, from, message);
  if (box.bytes != data.size()) {
    end_group(fmt::format("rank {} sends {} bytes at {}, rank {} expects {} at {}", from, box.bytes,
                          site_name(state_->site_of(from)), rank_, data.size(), site_name(site_)));
  }
  {
    const Reading reading(*state_, rank_);
    std::copy_n(box.data, data.size(), data.data());
  }
  box.taken.add(kOne);
  box.taken.wake_all();
}

std::vector<std::unique_ptr<Group>> make_local_group(int size, const LocalGroupOptions& options) {
  assert(1 <= size && size <= UINT16_MAX);
  const auto state = std::make_shared<LocalState>(size, options);
  std::vector<std::unique_ptr<Group>> ends;
  for (int rank = 0; rank < size; ++rank) ends.push_back(std::make_unique<LocalGroup>(state, rank));
  return ends;
}

}  // namespace lockstep
