// The ranks: N leader threads, each with its team and its decoder, which load together and step together.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/placement.h"
#include "engine/engine.h"
#include "engine/step.h"

namespace lockstep {

struct ExecutorOptions {
  DecoderOptions decoder;  // of every rank; fault and recorder are filled in rank by rank
  PlacementOptions placement;
  std::chrono::milliseconds stall{2000};
  bool check_comm = false;
  FaultInjection faults;
  std::vector<Recorder*> recorders;
  Trace* trace = nullptr;
  std::function<void(int64_t done, int64_t total)> on_load;
};

// run_step() and idle() are for the thread that `lead` runs on; the rest may be called from any thread.
class Executor {
 public:
  // Loads every rank; throws what the first rank to fail threw. Then `lead` runs on rank 0's thread; when it returns
  // the ranks shut down. `ended` runs on the same thread afterwards, also when a rank has failed. The references must
  // outlive the executor.
  Executor(const Checkpoint& checkpoint, const ModelSpec& spec, const ShardPlan& plan, const ExecutorOptions& options,
           std::function<void(Executor&)> lead, std::function<void(const Error& cause)> ended);
  ~Executor();  // joins; `lead` must be about to return
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // One step of the whole group. Throws Error(RankFailed) when it ends.
  void run_step(const StepRows& rows, const LogitSink& sink);
  // To be called at least every `stall` / 2 while there is nothing to run: a rank 0 that waits for requests is not
  // stalled.
  void idle();

  // Rank 0's; nullptr when nothing is traced.
  TraceLane* leader_lane() const { return lanes_.front(); }

  const Placement& placement() const { return placement_; }

  // Waits for the step under way, if any.
  std::vector<RankReport> reports() const;

 private:
  struct Rank;
  void rank_main(int rank);
  void name_and_pin_thread(int rank, int thread) const;
  void step_one(Rank& rank, int64_t step, const StepRows& rows, const LogitSink& sink);
  void inject_fault(const Rank& rank, int64_t step) const;
  void first_report(const Rank& rank);
  void fail_group(int rank, std::exception_ptr error) noexcept;
  void vanish(int rank);
  void wait_for_load();
  void join_all() noexcept;

  const Checkpoint& checkpoint_;
  const ModelSpec& spec_;
  const ShardPlan& plan_;
  const ExecutorOptions options_;
  const Placement placement_;
  const std::function<void(Executor&)> lead_;
  const std::function<void(const Error& cause)> ended_;
  SpinPolicy spin_;
  std::vector<TraceLane*> lanes_;               // [ranks]
  std::vector<std::unique_ptr<Group>> groups_;  // [ranks]

  Rank* first_ = nullptr;              // rank 0, while it leads
  int64_t next_step_ = 0;              // rank 0's thread
  std::atomic<int64_t> step_now_{-1};  // written by rank 0; -1 while loading
  std::atomic<int64_t> loaded_bytes_{0};

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;  // with every change of what mutex_ protects
  std::vector<RankReport> reports_;          // protected by mutex_, as are the following
  std::vector<int64_t> steps_done_;          // [ranks]
  bool failed_ = false;                      // a rank has
  std::exception_ptr load_error_;            // what the first rank to fail while loading threw
  int ranks_loaded_ = 0;

  std::vector<std::thread> threads_;  // last: they use everything above
};

}  // namespace lockstep
