// How the ranks of a local group meet: posts, arrivals, waits that watch for aborts and stalls, and the checks that
// turn a disagreement into an error instead of a hang or a read out of bounds.
#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "comm/local_group.h"

namespace lockstep {
namespace {

// FNV-1a, over numbers instead of bytes.
class Hash {
 public:
  void add(uint64_t number) { value_ = (value_ ^ number) * 0x100000001b3; }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

bool same_site(const CommSite& a, const CommSite& b) {
  return a.layer == b.layer && std::string_view(a.name) == std::string_view(b.name);
}

std::string describe(const Post& post) {
  std::string text(op_name(post.op));
  if (post.op == Op::Gather || post.op == Op::Broadcast) text += fmt::format(" (root {})", post.root);
  if (post.op != Op::Barrier)
    text += fmt::format(" of {} {}", post.length, post.op == Op::Broadcast ? "bytes" : "floats");
  return text + " at " + site_name(post.site) + (post.step < 0 ? "" : fmt::format(" in step {}", post.step));
}

}  // namespace

class LocalGroup::WaitTime {
 public:
  WaitTime(LocalGroup& group, Waiting waiting)
      : group_(group), begin_(StallWatch::Clock::now()), zone_(group.zone(ZoneName::Wait, begin_)) {
    group.watch_.restart();
    group.me().waiting.store(waiting.pack());
  }
  ~WaitTime() {
    group_.tick();
    group_.me().waiting.store(Waiting{}.pack());
    const auto now = StallWatch::Clock::now();
    zone_.end(now);
    group_.counters_.wait_ns += std::chrono::nanoseconds(now - begin_).count();
  }
  WaitTime(const WaitTime&) = delete;
  WaitTime& operator=(const WaitTime&) = delete;

 private:
  LocalGroup& group_;
  const StallWatch::Clock::time_point begin_;
  Zone zone_;
};

void LocalGroup::end_if_aborted() {
  if (aborted()) state_->throw_aborted(rank_);
}

void LocalGroup::end_group(std::string cause) {
  state_->abort(std::move(cause));
  state_->throw_aborted(rank_);
}

// --- waiting ---

void LocalGroup::wait(const WaitWord& word, uint32_t target) {
  const auto interval = look_interval(state_->options().stall);
  SpinPolicy spin = state_->options().spin;
  for (uint32_t seen = word.load(); !reached(seen, target); seen = word.load()) {
    if (seen & kAbortBit) state_->throw_aborted(rank_);
    if (word.wait_while_equal(seen, spin, interval)) continue;
    spin.spins = 0;  // a wait this long is not worth a processor
    if (auto cause = watch_.check(StallWatch::Clock::now())) end_group(std::move(*cause));
  }
}

void LocalGroup::arrive() {
  phase_ += kOne;
  me().arrived.add(kOne);
  me().arrived.wake_all();
}

void LocalGroup::wait_for_everybody() {
  const Waiting waiting{.kind = Waiting::Kind::Everybody, .op = op_, .target = phase_};
  if (state_->satisfied(rank_, waiting)) return;
  const WaitTime time(*this, waiting);
  for (int i = 1; i < size_; ++i) wait(state_->rank((rank_ + i) % size_).arrived, phase_);
}

void LocalGroup::wait_for_arrival(int peer) {
  wait_for(state_->rank(peer).arrived, Waiting::Kind::Arrival, peer, phase_);
}

void LocalGroup::wait_for(const WaitWord& word, Waiting::Kind kind, int peer, uint32_t target) {
  if (reached(word.load(), target)) return;
  const WaitTime time(*this, {.kind = kind, .op = op_, .peer = static_cast<uint16_t>(peer), .target = target});
  wait(word, target);
}

// --- meeting ---

const void* LocalGroup::offer(std::span<const std::byte> data, bool staged) {
  if (!staged) return data.data();
  std::byte* slot = me().slots.data() + next_turn() * state_->slot_bytes();
  std::copy(data.begin(), data.end(), slot);
  return slot;
}

void LocalGroup::meet(Post post) {
  post.site = site_;
  post.step = state_->step_of(rank_);
  posts_in_use_ = next_turn();
  me().posts[posts_in_use_] = post;
  meet_again();
  for (int peer = 0; peer < size_; ++peer) compare_posts(peer);
}

void LocalGroup::meet_again() {
  arrive();
  wait_for_everybody();
}

// --- checks ---

void LocalGroup::require_length(const char* what, size_t found, size_t expected) {
  if (found == expected) return;
  end_group(fmt::format("rank {} has {} floats as {} at {} where the counts say {}", rank_, found, what,
                        site_name(site_), expected));
}

void LocalGroup::require_given(int peer, size_t expected) {
  const Post& post = post_of(peer);
  if (post.given == expected) return;
  end_group(fmt::format("rank {} gives {} floats in {}, rank {} expects {} of it", peer, post.given, describe(post),
                        rank_, expected));
}

void LocalGroup::compare_posts(int peer) {
  const Post& mine = post_of(rank_);
  const Post& theirs = post_of(peer);
  const bool same = mine.op == theirs.op && mine.root == theirs.root && mine.length == theirs.length &&
                    mine.step == theirs.step && (!state_->options().check || same_site(mine.site, theirs.site));
  if (!same) {
    end_group(fmt::format("the ranks disagree: rank {} calls {}, rank {} calls {}", std::min(rank_, peer),
                          describe(rank_ < peer ? mine : theirs), std::max(rank_, peer),
                          describe(rank_ < peer ? theirs : mine)));
  }
  if (mine.shape != theirs.shape) {
    end_group(fmt::format("rank {} and rank {} divide the {} differently among the ranks (shapes {:016x} and {:016x})",
                          rank_, peer, describe(mine), mine.shape, theirs.shape));
  }
}

uint64_t LocalGroup::shape_of(std::span<const size_t> counts) const {
  Hash hash;
  if (state_->options().check) {
    for (const size_t count : counts) hash.add(count);
  }
  return hash.value();
}

uint64_t LocalGroup::shape_of(const TreeLayout& layout) const {
  Hash hash;
  if (state_->options().check) {
    for (const int64_t nodes : layout.nodes_of_rank) hash.add(static_cast<uint64_t>(nodes));
    for (const uint8_t merges : layout.join.merges) hash.add(merges);
  }
  return hash.value();
}

}  // namespace lockstep
