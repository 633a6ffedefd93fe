// Waiting for a word of memory to change: spin briefly, then sleep in the kernel until woken or until a time has
// passed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep {

// How long a waiter spins before it sleeps. Zero when more threads than processors want to run.
struct SpinPolicy {
  int spins = 4000;  // rounds of a pause instruction, about 10-40 ns each
};

// A word that threads wait on. Changing it publishes everything written before (release); seeing the change acquires
// it. Every function may be called by any thread. The word must outlive its waiters and whoever is inside wake_all().
class WaitWord {
 public:
  uint32_t load() const { return value_.load(std::memory_order_acquire); }

  // Both return the new value, and wake nobody: call wake_all() when the new value is one that somebody waits for.
  uint32_t add(uint32_t n) { return value_.fetch_add(n) + n; }
  uint32_t set_bits(uint32_t bits) { return value_.fetch_or(bits) | bits; }

  // Wakes every thread that sleeps here. Makes no system call when none does.
  void wake_all() {
    if (sleepers_.load() != 0) wake_sleepers();
  }

  // Returns true once the word is not `old`, false when the timeout has passed first. A sleeper whose word changes
  // without a wake_all() may sleep until the timeout.
  bool wait_while_equal(uint32_t old, SpinPolicy spin, std::chrono::nanoseconds timeout) const;

 private:
  void wake_sleepers();

  // A sleeper counts itself before it reads the value a last time, and a writer changes the value before it reads the
  // count. Both in the one order of sequentially consistent operations: so one of the two sees the other.
  std::atomic<uint32_t> value_{0};
  mutable std::atomic<uint32_t> sleepers_{0};
};

}  // namespace lockstep
