// WaitWord over the futex system call of Linux.
#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t),
              "the kernel reads the word as a plain 32-bit integer");

// Tells the processor that this is a waiting loop, which frees the core for its sibling thread.
void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

bool WaitWord::wait_while_equal(uint32_t old, SpinPolicy spin, std::chrono::nanoseconds timeout) const {
  for (int i = 0; i < spin.spins; ++i) {
    if (load() != old) return true;
    pause();
  }
  const auto begin = Clock::now();
  sleepers_.fetch_add(1);
  bool changed = value_.load() != old;
  while (!changed) {
    const std::chrono::nanoseconds left = timeout - (Clock::now() - begin);
    if (left.count() <= 0) break;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec relative{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
    // Returns at once when the word is not `old`, and for signals; either way the word is read again.
    syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, old, &relative, nullptr, 0);
    changed = value_.load() != old;
  }
  sleepers_.fetch_sub(1);
  return changed;
}

void WaitWord::wake_sleepers() {
  syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep
