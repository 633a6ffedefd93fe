// What the ranks of a local group share: who has arrived where, what each waits for, and how the group ends.
//
// Ranks meet at phases, counted from 1. A rank that reaches phase p raises its `arrived` word and waits until everybody
// else's says p too. Every collective begins with such a meeting of all ranks, and one that lets peers read a rank's
// own buffers ends with one; the next collective posts for the phase after it. That carries all safety:
// - what a rank posts or stages for phase p lies in place p mod 2. A place is written again only after a meeting that
//   follows its last read: readers are done before they arrive at the phase after p, or, in a collective of several
//   phases, at its last; and a rank posts for p + 2 or later only when it has seen everybody arrive there;
// - a peer's own buffer is read only between two meetings, and never after an abort: see Reading.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/futex.h"
#include "comm/comm.h"

namespace lockstep {

enum class Op : uint8_t {
  None,
  AllReduce,
  AllReduceRing,
  AllGather,
  ReduceScatter,
  Gather,
  Broadcast,
  Barrier,
  Send,
  Receive,
};
std::string_view op_name(Op op);
// Not for None.
ZoneName zone_of(Op op);

// "attn_output of layer 3"; "outside the layers" for no site.
std::string site_name(const CommSite& site);
// " at step 12"; nothing before the first step.
std::string at_step(int64_t step);

// Words that ranks wait on count in steps of two; the lowest bit says that the group is aborted. They may wrap around.
inline constexpr uint32_t kAbortBit = 1;
inline constexpr uint32_t kOne = 2;
inline uint32_t count_of(uint32_t word) {
  return word & ~kAbortBit;
}
inline bool reached(uint32_t word, uint32_t target) {
  return static_cast<int32_t>(word - target) >= 0;
}

// What a rank brings to a collective. Written before it arrives, read by the others after they have met.
struct Post {
  Op op = Op::None;
  int32_t root = 0;
  int64_t step = -1;
  CommSite site = {};
  size_t length = 0;   // the length all ranks must agree on: floats of the whole, or bytes of a broadcast
  size_t given = 0;    // floats this rank contributes
  uint64_t shape = 0;  // in checking mode: a hash of the counts or the tree, which all ranks must agree on
  const void* in = nullptr;
  const void* out = nullptr;
};

// What a rank waits for, in one word so that others can read it whole. kind None: it does not wait.
struct Waiting {
  enum class Kind : uint8_t { None, Everybody, Arrival, Posted, Taken };
  Kind kind = Kind::None;
  Op op = Op::None;
  uint16_t peer = 0;    // the rank whose arrival, message or receipt is awaited (all but Everybody)
  uint32_t target = 0;  // the count to reach

  uint64_t pack() const {
    return static_cast<uint64_t>(kind) << 56 | static_cast<uint64_t>(op) << 48 | static_cast<uint64_t>(peer) << 32 |
           target;
  }
  static Waiting unpack(uint64_t word) {
    return {static_cast<Kind>(word >> 56), static_cast<Op>(word >> 48 & 0xff), static_cast<uint16_t>(word >> 32),
            static_cast<uint32_t>(word)};
  }
};

// One rank's part of the shared state. Lines that peers poll are kept apart from lines the rank writes while it
// computes.
struct RankState {
  alignas(64) WaitWord arrived;                   // the last phase reached, in steps of kOne
  alignas(64) std::array<Post, 2> posts;          // used in turn
  alignas(64) std::atomic<uint64_t> progress{0};  // raised by tick() and by every collective
  std::atomic<int64_t> step{-1};                  // the step under way
  std::atomic<int32_t> layer{-1};                 // the last site; two words, for messages only
  std::atomic<const char*> site{""};
  alignas(64) std::atomic<uint64_t> waiting{0};  // a packed Waiting
  std::atomic<bool> reading{false};              // inside a peer's buffer: see Reading
  AlignedBuffer<std::byte> slots;                // [2][slot_bytes]: staged contributions, used in turn
};

// Messages from one rank to another: the sender posts a pointer and waits until the receiver has taken the bytes.
struct alignas(64) Mailbox {
  WaitWord posted;  // messages offered; raised by the sender
  WaitWord taken;   // messages copied out; raised by the receiver
  const std::byte* data = nullptr;
  size_t bytes = 0;
};

class LocalState {
 public:
  LocalState(int size, const LocalGroupOptions& options);

  int size() const { return static_cast<int>(ranks_.size()); }
  const LocalGroupOptions& options() const { return options_; }
  size_t slot_bytes() const { return slot_bytes_; }
  RankState& rank(int r) { return ranks_[static_cast<size_t>(r)]; }
  Mailbox& mailbox(int from, int to) { return mailboxes_[static_cast<size_t>(from * size() + to)]; }

  // Ends the group and wakes every waiter. The first cause stays.
  void abort(std::string cause) noexcept;
  bool aborted() const { return aborted_.load(); }
  std::string failure();  // the cause; empty while the group lives

  // Throws Error(RankFailed) with the cause, after every peer has left the buffers of `rank`, which the exception may
  // destroy. Not to be called inside Reading.
  [[noreturn]] void throw_aborted(int rank);

  // True when what `waiter` waits for has come.
  bool satisfied(int waiter, const Waiting& waiting);

  int64_t step_of(int r) { return rank(r).step.load(std::memory_order_relaxed); }
  CommSite site_of(int r) { return {rank(r).layer.load(std::memory_order_relaxed), rank(r).site.load()}; }

 private:
  const LocalGroupOptions options_;
  const size_t slot_bytes_;
  std::vector<RankState> ranks_;
  std::vector<Mailbox> mailboxes_;  // [from, to]
  std::atomic<bool> aborted_{false};
  std::mutex cause_mutex_;
  std::string cause_;
};

// Held while a rank reads from or through a pointer that a peer has posted. A peer that ends because of an abort waits
// for it in throw_aborted() before its buffers go away; so the constructor throws when the group is already aborted.
// Nothing inside may wait or throw.
class Reading {
 public:
  Reading(LocalState& state, int rank) : reading_(state.rank(rank).reading) {
    reading_.store(true);
    if (state.aborted()) {
      reading_.store(false);
      state.throw_aborted(rank);
    }
  }
  ~Reading() { reading_.store(false); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  std::atomic<bool>& reading_;
};

}  // namespace lockstep
