// The search along "waits for", and the two messages it can end in.
#include "comm/stall_watch.h"

#include <algorithm>

#include "base/error.h"

namespace lockstep {
namespace {

double seconds(StallWatch::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::chrono::nanoseconds look_interval(std::chrono::nanoseconds stall) {
  using std::chrono::milliseconds;
  return std::clamp<std::chrono::nanoseconds>(stall / 10, milliseconds(1), milliseconds(50));
}

StallWatch::StallWatch(LocalState& state, int rank, Clock::duration interval)
    : state_(state),
      rank_(rank),
      interval_(interval),
      seen_(static_cast<size_t>(state.size())),
      reached_(seen_.size()) {}

std::optional<std::string> StallWatch::check(Clock::time_point now) {
  const auto limit = state_.options().stall;
  const int size = state_.size();
  const auto waiting_of = [&](int rank) { return Waiting::unpack(state_.rank(rank).waiting.load()); };

  if (!watching_) looked_ = last_moved_ = now;
  const auto paused = std::max(Clock::duration(0), now - looked_ - 2 * interval_);
  looked_ = now;
  last_moved_ += paused;
  for (int rank = 0; rank < size; ++rank) {
    Seen& seen = seen_[static_cast<size_t>(rank)];
    const uint64_t progress = state_.rank(rank).progress.load(std::memory_order_relaxed);
    const bool moved = !watching_ || progress != seen.progress;
    seen.moved += paused;
    if (moved) last_moved_ = now;
    if (moved || is_blocked(rank, waiting_of(rank))) seen.moved = now;
    seen.progress = progress;
  }
  watching_ = true;

  // Everybody this rank waits for, and those they wait for, until no more are found.
  std::fill(reached_.begin(), reached_.end(), 0);
  mark_blockers(rank_, waiting_of(rank_));
  bool all_blocked = true;
  std::vector<char>::iterator next;
  while ((next = std::find(reached_.begin(), reached_.end(), 1)) != reached_.end()) {
    *next = 2;
    const int rank = static_cast<int>(next - reached_.begin());
    const Waiting waiting = waiting_of(rank);
    if (is_blocked(rank, waiting)) {
      mark_blockers(rank, waiting);
      continue;
    }
    all_blocked = false;
    const auto still = now - seen_[static_cast<size_t>(rank)].moved;
    if (still >= limit) return stalled(rank, still);
  }
  if (!all_blocked) last_moved_ = now;
  if (now - last_moved_ >= limit) return deadlocked(now - last_moved_);
  return std::nullopt;
}

void StallWatch::mark_blockers(int rank, const Waiting& waiting) {
  const auto mark = [&](int peer) {
    char& reached = reached_[static_cast<size_t>(peer)];
    if (reached == 0) reached = 1;
  };
  if (waiting.kind != Waiting::Kind::Everybody) return mark(waiting.peer);
  for (int peer = 0; peer < state_.size(); ++peer) {
    if (peer != rank && !reached(state_.rank(peer).arrived.load(), waiting.target)) mark(peer);
  }
}

std::string StallWatch::stalled(int culprit, Clock::duration still) {
  const Waiting mine = Waiting::unpack(state_.rank(rank_).waiting.load());
  return fmt::format(
      "rank {} stalled{}: no progress for {:.1f} s (limit {:.1f} s), last seen at {}; rank {} waits for it in "
      "{} at {}",
      culprit, at_step(state_.step_of(culprit)), seconds(still), seconds(state_.options().stall),
      site_name(state_.site_of(culprit)), rank_, op_name(mine.op), site_name(state_.site_of(rank_)));
}

std::string StallWatch::deadlocked(Clock::duration still) {
  std::string who;
  for (int rank = 0; rank < state_.size(); ++rank) {
    if (rank != rank_ && reached_[static_cast<size_t>(rank)] == 0) continue;
    const Waiting waiting = Waiting::unpack(state_.rank(rank).waiting.load());
    who += fmt::format("{}rank {} in {} at {}{}", who.empty() ? "" : ", ", rank, op_name(waiting.op),
                       site_name(state_.site_of(rank)), at_step(state_.step_of(rank)));
  }
  return fmt::format("the ranks wait for one another for {:.1f} s: {}", seconds(still), who);
}

}  // namespace lockstep
