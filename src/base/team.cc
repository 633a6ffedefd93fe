// Fork-join: the leader raises the epoch, works itself, and waits until every worker has counted itself finished.
#include "base/team.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/checked.h"

namespace lockstep {
namespace {

// The workers of an idle team sleep; waking once an hour keeps the sleep a plain timed wait.
constexpr std::chrono::hours kLong{1};

void wait_past(const WaitWord& word, uint32_t old, SpinPolicy spin) {
  while (!word.wait_while_equal(old, spin, kLong)) {
  }
}

}  // namespace

Team::Team(Options options)
    : threads_(options.threads), spin_(options.spin), on_start_(std::move(options.on_start)), errors_(threads_) {
  assert(threads_ >= 1);
  workers_.reserve(threads_ - 1);
  try {
    for (int thread = 1; thread < threads_; ++thread) workers_.emplace_back([this, thread] { worker_loop(thread); });
  } catch (...) {
    stop_workers();
    throw;
  }
}

Team::~Team() {
  stop_workers();
}

void Team::stop_workers() {
  stop_.store(true);
  epoch_.add(1);
  epoch_.wake_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::run(FunctionRef<void(int thread)> work) {
  if (threads_ == 1) return work(0);
  work_ = &work;
  const uint32_t all_finished = epoch_.add(1) * static_cast<uint32_t>(threads_ - 1);
  epoch_.wake_all();
  call(0);
  for (uint32_t seen = finished_.load(); seen != all_finished; seen = finished_.load()) {
    wait_past(finished_, seen, spin_);
  }
  work_ = nullptr;

  std::exception_ptr first;
  for (std::exception_ptr& error : errors_) {
    if (error && !first) first = error;
    error = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

Team::Part Team::part(int64_t count, int64_t multiple, int thread) const {
  assert(count >= 0 && multiple >= 1);
  const int64_t units = ceil_div(count, multiple);
  const auto boundary = [&](int64_t of) { return std::min(count, units * of / threads_ * multiple); };
  return {boundary(thread), boundary(thread + 1)};
}

void Team::split(int64_t count, int64_t multiple, FunctionRef<void(int64_t begin, int64_t end, int thread)> work) {
  run([&](int thread) {
    const Part mine = part(count, multiple, thread);
    if (mine.begin < mine.end) work(mine.begin, mine.end, thread);
  });
}

void Team::call(int thread) {
  try {
    (*work_)(thread);
  } catch (...) {
    if (!errors_[thread]) errors_[thread] = std::current_exception();
  }
}

void Team::worker_loop(int thread) {
  try {
    if (on_start_) on_start_(thread);
  } catch (...) {
    errors_[thread] = std::current_exception();
  }
  // No run can end without this worker, so it never misses an epoch.
  for (uint32_t epoch = 0;; ++epoch) {
    wait_past(epoch_, epoch, spin_);
    if (stop_.load()) return;
    call(thread);
    const uint32_t workers = static_cast<uint32_t>(threads_ - 1);
    if (finished_.add(1) == (epoch + 1) * workers) finished_.wake_all();
  }
}

}  // namespace lockstep
