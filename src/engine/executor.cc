// Starting, stepping and ending the ranks.
#include "engine/executor.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "base/affinity.h"
#include "base/topology.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

// Ends a rank's thread with nothing to say, as a dying rank would.
struct ExitFault {};

}  // namespace

struct Executor::Rank {
  int rank;
  Group& group;
  TraceLane* lane;
  Decoder& decoder;
  StepChannel& channel;
};

Executor::Executor(const Checkpoint& checkpoint, const ModelSpec& spec, const ShardPlan& plan,
                   const ExecutorOptions& options, std::function<void(Executor&)> lead,
                   std::function<void(const Error& cause)> ended)
    : checkpoint_(checkpoint),
      spec_(spec),
      plan_(plan),
      options_(options),
      placement_(place(read_topology(), options.placement)),
      lead_(std::move(lead)),
      ended_(std::move(ended)),
      reports_(static_cast<size_t>(plan.tp_size())),
      steps_done_(reports_.size()) {
  LocalGroupOptions comm;
  comm.stall = options.stall;
  comm.check = options.check_comm;
  comm.delay = std::chrono::microseconds(options.faults.comm_delay_us);
  if (placement_.crowded) comm.spin.spins = 0;
  spin_ = comm.spin;
  lanes_.resize(reports_.size());
  if (options.trace != nullptr) {
    for (size_t rank = 0; rank < lanes_.size(); ++rank)
      lanes_[rank] = &options.trace->add_lane(fmt::format("rank {}", rank));
  }
  comm.lanes = lanes_;
  groups_ = make_local_group(plan.tp_size(), comm);
  threads_.reserve(groups_.size());
  try {
    for (int rank = 0; rank < plan.tp_size(); ++rank) threads_.emplace_back([this, rank] { rank_main(rank); });
    wait_for_load();
  } catch (const std::system_error& error) {
    groups_.front()->abort("a thread could not be started");
    join_all();
    fail(ErrorKind::DoesNotFit, "{} ranks with {} threads cannot be started: {}; take fewer (--tp-size, --threads)",
         plan.tp_size(), placement_.threads(), error.what());
  } catch (...) {
    groups_.front()->abort("loading was given up");
    join_all();
    throw;
  }
}

Executor::~Executor() {
  join_all();
}

void Executor::join_all() noexcept {
  for (auto& thread : threads_) thread.join();
}

void Executor::run_step(const StepRows& rows, const LogitSink& sink) {
  const int64_t step = next_step_++;
  step_now_ = step;
  first_->channel.send(step, rows);
  step_one(*first_, step, rows, sink);
}

void Executor::idle() {
  first_->group.tick();
  if (first_->group.aborted()) first_->group.barrier();  // throws the cause
}

std::vector<RankReport> Executor::reports() const {
  // A rank counts a step after rank 0 may have handed out its token.
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] {
    return failed_ || std::all_of(steps_done_.begin(), steps_done_.end(), [&](int64_t s) { return s > step_now_; });
  });
  return reports_;
}

void Executor::rank_main(int rank) {
  Group& group = *groups_[static_cast<size_t>(rank)];
  TraceLane* const lane = lanes_[static_cast<size_t>(rank)];
  try {
    Zone load(lane, ZoneName::Load);
    name_and_pin_thread(rank, 0);
    const auto threads = static_cast<int>(placement_.ranks[static_cast<size_t>(rank)].threads.size());
    Team team({threads, spin_, [this, rank](int thread) { name_and_pin_thread(rank, thread); }});
    DecoderOptions decoder_options = options_.decoder;
    if (options_.faults.fault && options_.faults.fault->rank == rank) decoder_options.fault = options_.faults.fault;
    if (!options_.recorders.empty()) decoder_options.recorder = options_.recorders[static_cast<size_t>(rank)];
    decoder_options.lane = lane;
    Decoder decoder(spec_, plan_, checkpoint_, group, team, decoder_options, &loaded_bytes_);
    StepChannel channel(group, {decoder_options.max_rows, decoder_options.max_sequences, decoder_options.pages,
                                decoder_options.pages_per_sequence, spec_.vocab});
    Rank self{rank, group, lane, decoder, channel};
    first_report(self);
    load.end();
    group.barrier();
    if (rank == 0) first_ = &self;
    {
      const std::lock_guard lock(mutex_);
      ++ranks_loaded_;
    }
    changed_.notify_all();

    if (rank == 0) {
      lead_(*this);
      channel.send_shutdown();
    } else {
      StepRows rows;
      int64_t step = 0;
      while (channel.receive(step, rows)) step_one(self, step, rows, {});
    }
  } catch (const ExitFault&) {
    vanish(rank);
  } catch (...) {
    fail_group(rank, std::current_exception());
  }
  if (rank != 0) return;
  const std::string failure = group.failure();
  ended_(failure.empty() ? Error(ErrorKind::Cancelled, "the engine has been shut down")
                         : Error(ErrorKind::RankFailed, failure));
}

// On the thread itself, before it touches memory that is to be near it.
void Executor::name_and_pin_thread(int rank, int thread) const {
  name_this_thread(fmt::format("rank{}.{}", rank, thread));
  const auto& processors = placement_.ranks[static_cast<size_t>(rank)].threads[static_cast<size_t>(thread)];
  if (!processors.empty()) pin_this_thread(processors);
}

void Executor::first_report(const Rank& rank) {
  const std::lock_guard lock(mutex_);
  RankReport& report = reports_[static_cast<size_t>(rank.rank)];
  report.rank = rank.rank;
  report.weight_bytes = rank.decoder.weight_bytes();
  report.replicated_bytes = plan_.ranks[static_cast<size_t>(rank.rank)].replicated_bytes;
  report.read_bytes = rank.decoder.read_bytes();
  report.kv_bytes = rank.decoder.kv_bytes();
  report.weight_bytes_per_token = rank.decoder.weight_bytes_per_token();
}

void Executor::step_one(Rank& rank, int64_t step, const StepRows& rows, const LogitSink& sink) {
  for (const PageAssignment& page : rows.pages) rank.decoder.set_page(page.sequence, page.index, page.page);
  const Clock::time_point begin = Clock::now();
  StepZone zone(rank.lane, step, begin);
  const CommCounters before = rank.group.counters();
  rank.group.begin_step(step);
  inject_fault(rank, step);
  rank.decoder.forward(rows.batch(), step, sink);
  const CommCounters after = rank.group.counters();
  const Clock::time_point end = Clock::now();
  zone.end(end);
  const double whole = std::chrono::duration<double>(end - begin).count();
  const double comm = static_cast<double>(after.comm_ns - before.comm_ns) * 1e-9;
  const double wait = static_cast<double>(after.wait_ns - before.wait_ns) * 1e-9;
  const std::lock_guard lock(mutex_);
  RankReport& report = reports_[static_cast<size_t>(rank.rank)];
  report.comm_calls += after.calls - before.calls;
  report.comm_bytes += after.bytes - before.bytes;
  report.compute_s += whole - comm;
  report.comm_s += comm - wait;
  report.wait_s += wait;
  steps_done_[static_cast<size_t>(rank.rank)] = step + 1;
  changed_.notify_all();
}

void Executor::inject_fault(const Rank& rank, int64_t step) const {
  const auto& fault = options_.faults.fault;
  if (!fault || fault->rank != rank.rank || fault->step != step) return;
  if (fault->kind == Fault::Kind::Throw) fail(ErrorKind::Internal, "the fault a test asked for");
  if (fault->kind == Fault::Kind::Exit) throw ExitFault{};
  while (fault->kind == Fault::Kind::Stall && !rank.group.aborted()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// What a rank threw ends the group, unless another rank's end is what it threw.
void Executor::fail_group(int rank, std::exception_ptr error) noexcept {
  std::string what;
  bool follows = false;
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    follows = known.kind() == ErrorKind::RankFailed;
    what = known.what();
  } catch (const std::bad_alloc&) {
    what = "out of memory";
  } catch (const std::exception& other) {
    what = other.what();
  } catch (...) {
    what = "it threw what is not an exception";
  }
  {
    // Before the others wake up and report what they throw because of it.
    const std::lock_guard lock(mutex_);
    if (!load_error_ && !follows) load_error_ = std::move(error);
    failed_ = true;
  }
  groups_[static_cast<size_t>(rank)]->abort(what);
  changed_.notify_all();
}

// A rank that dies says nothing: the others find that it stands still. Rank 0's requests wait for what they find.
void Executor::vanish(int rank) {
  const Group& group = *groups_[static_cast<size_t>(rank)];
  if (plan_.tp_size() == 1) {
    fail_group(rank, std::make_exception_ptr(Error(ErrorKind::Internal, "it ended without a word")));
  }
  while (rank == 0 && !group.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Executor::wait_for_load() {
  int64_t total = 0;
  for (const RankPlan& rank : plan_.ranks) total += rank.weight_bytes;
  const auto settled = [this] { return ranks_loaded_ == plan_.tp_size() || failed_; };
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(50), settled)) {
    if (!options_.on_load) continue;
    lock.unlock();  // a slow terminal must not hold up the ranks
    options_.on_load(std::min<int64_t>(loaded_bytes_, total), total);
    lock.lock();
  }
  if (failed_ && load_error_) std::rethrow_exception(load_error_);
  if (failed_) throw Error(ErrorKind::RankFailed, groups_.front()->failure());
  lock.unlock();
  if (options_.on_load) options_.on_load(total, total);
}

}  // namespace lockstep
