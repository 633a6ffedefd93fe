// One rank's end of a group whose ranks are threads of this process.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "comm/join_columns.h"
#include "comm/local_state.h"
#include "comm/stall_watch.h"

namespace lockstep {

// local_group.cc holds the collectives, local_meeting.cc the meetings and waits they are made of.
class LocalGroup final : public Group {
 public:
  LocalGroup(std::shared_ptr<LocalState> state, int rank);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void begin_step(int64_t step) override { me().step.store(step, std::memory_order_relaxed); }
  void at(CommSite site) override;

  void all_reduce(const TreeLayout& layout, std::span<const float> mine, std::span<float> out) override;
  void all_reduce_ring(std::span<float> values) override;
  void all_gather(std::span<const float> mine, std::span<const size_t> counts, std::span<float> all) override;
  void reduce_scatter(std::span<const float> values, std::span<const size_t> counts, std::span<float> mine) override;
  void gather(std::span<const float> mine, std::span<const size_t> counts, std::span<float> all, int root) override;
  void broadcast(std::span<std::byte> data, int root) override;
  void barrier() override;
  void send(std::span<const std::byte> data, int to) override;
  void receive(std::span<std::byte> data, int from) override;

  void abort(const std::string& cause) noexcept override;
  bool aborted() const noexcept override { return state_->aborted(); }
  std::string failure() const override { return state_->failure(); }
  void tick() noexcept override { me().progress.fetch_add(1, std::memory_order_relaxed); }
  CommCounters counters() const override { return counters_; }

 private:
  class Call;      // one collective, from entry to exit: counts it
  class WaitTime;  // one wait: published for the others, and counted

  RankState& me() const { return state_->rank(rank_); }
  // A zone of what this rank does at its present site.
  Zone zone(ZoneName name, TraceClock::time_point now) const { return {lane_, name, site_.layer, site_.name, now}; }

  // --- meetings ---
  // Posts, meets everybody, and compares what all have posted. Aborts and throws when they disagree.
  void meet(Post post);
  const Post& post_of(int peer) { return state_->rank(peer).posts[posts_in_use_]; }
  // Where this rank may stage data for the meeting to come, and which of the two posts that will be.
  size_t next_turn() const { return (phase_ / kOne + 1) % 2; }
  // What to post as `in`: a copy in this rank's slot, or the caller's own memory.
  const void* offer(std::span<const std::byte> data, bool staged);
  void arrive();                    // at the next phase
  void wait_for_everybody();        // until all have arrived there
  void meet_again();                // both, without a post
  void wait_for_arrival(int peer);  // until one peer has arrived there
  void wait_for(const WaitWord& word, Waiting::Kind kind, int peer, uint32_t target);
  void wait(const WaitWord& word, uint32_t target);  // inside a WaitTime
  void end_if_aborted();
  [[noreturn]] void end_group(std::string cause);

  // --- checks; each ends the group with both values ---
  void require_length(const char* what, size_t found, size_t expected);
  void require_given(int peer, size_t expected);
  void compare_posts(int peer);
  uint64_t shape_of(std::span<const size_t> counts) const;
  uint64_t shape_of(const TreeLayout& layout) const;

  bool is_small(size_t bytes) const { return static_cast<int64_t>(bytes) <= state_->options().one_shot_bytes; }
  std::span<const float* const> inputs();  // `in` of every rank's post
  // Puts the parts of all ranks side by side, `mine` from where it is.
  void collect(std::span<const float> mine, std::span<const size_t> counts, std::span<float> all);

  const std::shared_ptr<LocalState> state_;
  const int rank_;
  const int size_;
  TraceLane* const lane_;  // nullptr: not traced
  const TreeLayout sum_of_ranks_;
  uint32_t phase_ = 0;  // the last phase reached, as in RankState::arrived
  size_t posts_in_use_ = 0;
  Op op_ = Op::None;
  CommSite site_;
  bool delay_due_ = false;  // a site was named since the last collective
  CommCounters counters_;
  StallWatch watch_;
  ColumnJoiner joiner_;
  std::vector<const float*> inputs_;  // [ranks]
};

}  // namespace lockstep
