// The threads of one rank: a leader (whoever built the team) and workers that wait for the next piece of work.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/futex.h"

namespace lockstep {

// Fork-join over a fixed set of threads. run() and split() are for the leader only, and not from inside work; they
// return when every thread has finished, and rethrow the first exception of the lowest thread number. Workers use no
// processor time while idle (after a brief spin). A team of one calls the function directly. Neither allocates memory.
class Team {
 public:
  struct Options {
    int threads = 1;
    SpinPolicy spin;
    // Called on every worker (1..threads-1) before its first work; what it throws, the first run() throws.
    std::function<void(int thread)> on_start;
  };

  explicit Team(Options options);
  ~Team();  // joins the workers
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const { return threads_; }

  // Calls work(thread) once on each thread, 0 being the leader.
  void run(FunctionRef<void(int thread)> work);

  // Divides [0, count) into one contiguous range a thread, each boundary a multiple of `multiple`, and calls
  // work(begin, end, thread) for the ranges that are not empty.
  void split(int64_t count, int64_t multiple, FunctionRef<void(int64_t begin, int64_t end, int thread)> work);

  // The range of [0, count) that split() gives to a thread; perhaps empty. Memory first written in one split and read
  // in another of the same count and multiple is near the threads that use it.
  struct Part {
    int64_t begin = 0;
    int64_t end = 0;
  };
  Part part(int64_t count, int64_t multiple, int thread) const;

 private:
  void worker_loop(int thread);
  void call(int thread);
  void stop_workers();

  const int threads_;
  const SpinPolicy spin_;
  const std::function<void(int)> on_start_;
  const FunctionRef<void(int)>* work_ = nullptr;  // valid while a run is under way
  WaitWord epoch_;                                // one more for each run; workers wait for it to change
  WaitWord finished_;                             // runs finished by workers: epoch_ x (threads - 1) between runs
  std::atomic<bool> stop_{false};
  std::vector<std::exception_ptr> errors_;  // [threads]
  std::vector<std::thread> workers_;
};

}  // namespace lockstep
