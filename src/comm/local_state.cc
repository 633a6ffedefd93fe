// Construction, the end of a group, and the names used in its messages.
#include "comm/local_state.h"

#include <algorithm>
#include <cassert>
#include <thread>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace lockstep {

ZoneName zone_of(Op op) {
  // Both list the collectives in the same order.
  static_assert(static_cast<int>(ZoneName::Receive) - static_cast<int>(ZoneName::AllReduce) ==
                static_cast<int>(Op::Receive) - static_cast<int>(Op::AllReduce));
  assert(op != Op::None);
  return static_cast<ZoneName>(static_cast<int>(ZoneName::AllReduce) + static_cast<int>(op) -
                               static_cast<int>(Op::AllReduce));
}

std::string_view op_name(Op op) {
  return op == Op::None ? "nothing" : zone_table()[static_cast<size_t>(zone_of(op))].name;
}

std::string site_name(const CommSite& site) {
  if (site.name[0] == '\0') return "outside the layers";
  if (site.layer < 0) return site.name;
  return fmt::format("{} of layer {}", site.name, site.layer);
}

std::string at_step(int64_t step) {
  return step < 0 ? "" : fmt::format(" at step {}", step);
}

LocalState::LocalState(int size, const LocalGroupOptions& options)
    : options_(options),
      slot_bytes_(static_cast<size_t>(round_up(std::max<int64_t>(options.one_shot_bytes, 0), 64))),
      ranks_(static_cast<size_t>(size)),
      mailboxes_(static_cast<size_t>(size) * static_cast<size_t>(size)) {
  if (size == 1) return;
  for (RankState& rank : ranks_) rank.slots = AlignedBuffer<std::byte>(2 * slot_bytes_);
}

void LocalState::abort(std::string cause) noexcept {
  {
    const std::lock_guard lock(cause_mutex_);
    if (aborted_.load()) return;
    cause_ = std::move(cause);
    aborted_.store(true);
  }
  const auto end = [](WaitWord& word) {
    word.set_bits(kAbortBit);
    word.wake_all();
  };
  for (RankState& rank : ranks_) end(rank.arrived);
  for (Mailbox& box : mailboxes_) {
    end(box.posted);
    end(box.taken);
  }
}

std::string LocalState::failure() {
  const std::lock_guard lock(cause_mutex_);
  return cause_;
}

void LocalState::throw_aborted(int rank) {
  assert(aborted());
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank) continue;
    while (this->rank(peer).reading.load()) std::this_thread::yield();
  }
  const std::lock_guard lock(cause_mutex_);
  throw Error(ErrorKind::RankFailed, cause_);
}

bool LocalState::satisfied(int waiter, const Waiting& waiting) {
  switch (waiting.kind) {
    case Waiting::Kind::None:
      return true;
    case Waiting::Kind::Everybody:
      return std::all_of(ranks_.begin(), ranks_.end(),
                         [&](const RankState& rank) { return reached(rank.arrived.load(), waiting.target); });
    case Waiting::Kind::Arrival:
      return reached(rank(waiting.peer).arrived.load(), waiting.target);
    case Waiting::Kind::Posted:
      return reached(mailbox(waiting.peer, waiter).posted.load(), waiting.target);
    case Waiting::Kind::Taken:
      return reached(mailbox(waiter, waiting.peer).taken.load(), waiting.target);
  }
  return true;
}

}  // namespace lockstep
