// Starting, stepping and ending the ranks.
#include "engine/executor.h"

#include "base/error.h"
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
  Decoder& decoder;
  StepChannel& channel;
};

Executor::Executor(const Checkpoint& checkpoint, const ModelSpec& spec, const ShardPlan& plan,
                   const ExecutorOptions& options, std::function<void(Executor&)> lead,
                   std::function<void(const std::string& cause)> ended)
    : checkpoint_(checkpoint),
      spec_(spec),
      plan_(plan),
      options_(options),
      lead_(std::move(lead)),
      ended_(std::move(ended)),
      reports_(static_cast<size_t>(plan.tp_size())) {
  LocalGroupOptions comm;
  comm.stall = options.stall;
  comm.check = options.check_comm;
  comm.delay = std::chrono::microseconds(options.faults.comm_delay_us);
  if (plan.tp_size() * options.threads > read_topology().processors) comm.spin.spins = 0;
  spin_ = comm.spin;
  groups_ = make_local_group(plan.tp_size(), comm);
  for (int rank = 0; rank < plan.tp_size(); ++rank) threads_.emplace_back([this, rank] { rank_main(rank); });
  wait_for_load();
}

Executor::~Executor() {
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

std::optional<std::string> Executor::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::vector<RankReport> Executor::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

void Executor::rank_main(int rank) {
  Group& group = *groups_[static_cast<size_t>(rank)];
  try {
    Team team({options_.threads, spin_, {}});
    DecoderOptions decoder_options = options_.decoder;
    if (options_.faults.fault && options_.faults.fault->rank == rank) decoder_options.fault = options_.faults.fault;
    if (!options_.recorders.empty()) decoder_options.recorder = options_.recorders[static_cast<size_t>(rank)];
    Decoder decoder(spec_, plan_, checkpoint_, group, team, decoder_options, &loaded_bytes_);
    StepChannel channel(group, {decoder_options.max_rows, decoder_options.max_sequences, decoder_options.pages,
                                decoder_options.pages_per_sequence, spec_.vocab});
    Rank self{rank, group, decoder, channel};
    first_report(self);
    group.barrier();
    if (rank == 0) {
      first_ = &self;
      isa_ = decoder.isa();
    }
    {
      const std::lock_guard lock(mutex_);
      ++ranks_loaded_;
    }
    loaded_.notify_all();

    if (rank == 0) {
      lead_(*this);
      channel.send_shutdown();
    } else {
      StepRows rows;
      int64_t step = 0;
      while (channel.receive(step, rows)) step_one(self, step, rows, {});
    }
  } catch (const std::exception& error) {
    fail_group(rank, error);
  } catch (...) {
    fail_group(rank, Error(ErrorKind::Internal, "it ended without an error"));
  }
  if (rank == 0) ended_(failure().value_or("the engine has been shut down"));
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
  const CommCounters before = rank.group.counters();
  inject_fault(rank, step);
  rank.decoder.forward(rows.batch(), step, sink);
  const CommCounters after = rank.group.counters();
  const double whole = std::chrono::duration<double>(Clock::now() - begin).count();
  const double comm = static_cast<double>(after.comm_ns - before.comm_ns) * 1e-9;
  const double wait = static_cast<double>(after.wait_ns - before.wait_ns) * 1e-9;
  const std::lock_guard lock(mutex_);
  RankReport& report = reports_[static_cast<size_t>(rank.rank)];
  report.compute_s += whole - comm;
  report.comm_s += comm - wait;
  report.wait_s += wait;
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

// What a rank threw ends the group; everybody learns the first cause.
void Executor::fail_group(int rank, const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  const bool follows = known != nullptr && known->kind() == ErrorKind::RankFailed;  // another rank's cause
  const int64_t step = step_now_;
  const std::string message = follows || step < 0
                                  ? std::string(error.what())
                                  : fmt::format("rank {} failed at step {}: {}", rank, step, error.what());
  groups_[static_cast<size_t>(rank)]->abort(message);
  {
    const std::lock_guard lock(mutex_);
    if (!follows && !first_error_) first_error_ = std::current_exception();
    if (!failure_) failure_ = message;
  }
  loaded_.notify_all();
}

void Executor::wait_for_load() {
  int64_t total = 0;
  for (const RankPlan& rank : plan_.ranks) total += rank.weight_bytes;
  {
    std::unique_lock lock(mutex_);
    while (ranks_loaded_ < plan_.tp_size() && !failure_) {
      loaded_.wait_for(lock, std::chrono::milliseconds(50));
      if (options_.on_load) options_.on_load(std::min<int64_t>(loaded_bytes_, total), total);
    }
    if (!failure_) {
      if (options_.on_load) options_.on_load(total, total);
      return;
    }
  }
  for (auto& thread : threads_) thread.join();
  if (first_error_) std::rethrow_exception(first_error_);
  throw Error(ErrorKind::RankFailed, *failure_);
}

}  // namespace lockstep
