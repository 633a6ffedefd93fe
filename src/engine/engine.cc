// Requests on their way: queue, schedule, step, sample, hand out.
#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>

#include "base/checked.h"
#include "base/error.h"
#include "engine/executor.h"
#include "engine/scheduler.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kPageTokens = 32;

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// A request on its way. Touched by rank 0's thread only, once queued.
struct Job {
  Request request;
  std::promise<Completion> promise;
  Completion completion;
  Sequence* sequence = nullptr;
  Clock::time_point submitted, first_token;
  // Of the present step:
  bool at_last_token = false;         // the row of the sequence's last token ran
  std::optional<PickedToken> picked;  // the token after it, when one is wanted
  std::exception_ptr error;           // what a callback threw, or a logit that is not a number
};

}  // namespace

class Engine::Impl {
 public:
  Impl(const Checkpoint& checkpoint, const ModelSpec& spec, const EngineOptions& options)
      : spec_(spec), options_(options), plan_(make_plan(spec, options.plan)) {
    ExecutorOptions executor;
    executor.decoder = set_limits();
    executor.placement = {plan_.tp_size(), options.threads, options.pin};
    executor.stall = options.stall;
    executor.check_comm = options.check_comm;
    executor.faults = options.faults;
    executor.recorders = options.recorders;
    executor.trace = options.trace;
    executor.on_load = options.on_load;
    executor_ = std::make_unique<Executor>(
        checkpoint, spec_, plan_, executor, [this](Executor& ranks) { lead(ranks); },
        [this](const Error& cause) { fail_all(cause); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    executor_.reset();
  }

  std::vector<std::future<Completion>> submit(std::vector<Request> requests) {
    std::vector<std::unique_ptr<Job>> jobs;
    std::vector<std::future<Completion>> futures;
    for (Request& request : requests) {
      check_request(request);
      auto job = std::make_unique<Job>();
      job->request = std::move(request);
      job->submitted = Clock::now();
      futures.push_back(job->promise.get_future());
      jobs.push_back(std::move(job));
    }
    {
      const std::lock_guard lock(mutex_);
      if (ended_) throw Error(*ended_);
      for (auto& job : jobs) queue_.push_back(std::move(job));
    }
    work_.notify_all();
    return futures;
  }

  const ShardPlan& plan() const { return plan_; }
  const Placement& placement() const { return executor_->placement(); }
  std::vector<RankReport> reports() const { return executor_->reports(); }

 private:
  DecoderOptions set_limits() {
    if (options_.context < 1) fail(ErrorKind::Usage, "--ctx is {}; it must be at least 1", options_.context);
    if (options_.context > spec_.context) {
      fail(ErrorKind::DoesNotFit, "--ctx {} is longer than the {} positions that {} was made for", options_.context,
           spec_.context, spec_.file);
    }
    DecoderOptions decoder;
    decoder.max_sequences = options_.max_sequences;
    decoder.page_tokens = kPageTokens;
    decoder.pages_per_sequence = ceil_div(options_.context, kPageTokens);
    decoder.pages = options_.pages > 0 ? std::max(options_.pages, decoder.pages_per_sequence)
                                       : decoder.pages_per_sequence * options_.max_sequences;
    decoder.kv_dtype = options_.kv_dtype;
    const bool whole = options_.prefill_chunk == 0;
    const int64_t prefill = whole ? options_.context : std::min(options_.prefill_chunk, options_.context);
    decoder.max_rows = prefill + options_.max_sequences;
    // Rows and pages are numbered in 32 bits, and the largest buffers must have a size at all.
    int64_t widest = std::max(spec_.hidden, spec_.vocab);
    for (const LayerSpec& layer : spec_.layers) widest = std::max({widest, layer.heads * layer.head_dim, layer.ffn});
    const auto tokens = checked_mul(static_cast<uint64_t>(decoder.pages), kPageTokens);
    const auto values = tokens ? checked_mul(*tokens, 8U * static_cast<uint64_t>(widest)) : std::nullopt;
    const auto rows = checked_mul(static_cast<uint64_t>(decoder.max_rows), 64U * static_cast<uint64_t>(widest));
    if (decoder.pages > INT32_MAX || decoder.max_rows > INT32_MAX || !values ||
        *values > INT64_MAX / spec_.layers.size() || !rows || *rows > INT64_MAX) {
      fail(ErrorKind::DoesNotFit, "{} sequences of {} positions are more than can be addressed; take a smaller context",
           options_.max_sequences, options_.context);
    }
    const bool recurrent = std::ranges::any_of(plan_.ranks, [](const RankPlan& rank) { return rank.state_values > 0; });
    limits_ = {prefill, options_.max_sequences, decoder.pages, kPageTokens, options_.reuse_prefixes, !recurrent};
    return decoder;
  }

  void check_request(const Request& request) const {
    const auto length = static_cast<int64_t>(request.tokens.size());
    if (length < 1) fail(ErrorKind::Usage, "the prompt has no tokens; it needs at least one");
    if (length > options_.context) {
      fail(ErrorKind::Usage, "the prompt has {} tokens; the context holds {} (--ctx)", length, options_.context);
    }
    for (const int32_t token : request.tokens) {
      if (token < 0 || token >= spec_.vocab) {
        fail(ErrorKind::Usage, "token {} is outside the vocabulary; ids are 0 to {}", token, spec_.vocab - 1);
      }
    }
    if (request.max_tokens < 0) fail(ErrorKind::Usage, "--max-tokens is {}; it must be 0 or more", request.max_tokens);
    check(request.sampling, spec_.vocab);
  }

  // ---- rank 0's thread ----

  void lead(Executor& ranks) {
    Scheduler scheduler(limits_);
    while (take_work(ranks, scheduler)) {
      const ScheduledStep& step = schedule(scheduler, ranks.leader_lane());
      const Clock::time_point begin = Clock::now();
      ranks.run_step(step.rows, [&](int64_t first, int64_t count, const float* logits) {
        const Zone zone(ranks.leader_lane(), ZoneName::Sample);
        const auto vocab = static_cast<size_t>(spec_.vocab);
        for (int64_t i = 0; i < count; ++i) {
          see_logits(step.logit_rows[static_cast<size_t>(first + i)], {logits + i * spec_.vocab, vocab});
        }
      });
      const double time = seconds(Clock::now() - begin);
      for (Sequence* sequence : step.prefilled) job_of(*sequence).completion.prefill_s += time;
      const Zone zone(ranks.leader_lane(), ZoneName::Schedule);
      scheduler.step_done();
      commit(scheduler);
    }
  }

  static const ScheduledStep& schedule(Scheduler& scheduler, TraceLane* lane) {
    const Zone zone(lane, ZoneName::Schedule);
    const ScheduledStep& step = scheduler.next_step();
    if (step.rows.tokens.empty()) fail(ErrorKind::Internal, "the scheduler found no sequence that can run");
    return step;
  }

  // Waits for something to do; false when the engine ends.
  bool take_work(Executor& ranks, Scheduler& scheduler) {
    std::unique_lock lock(mutex_);
    while (!stopping_ && queue_.empty() && scheduler.idle()) {
      ranks.idle();
      work_.wait_for(lock, options_.stall / 4);
    }
    if (stopping_) return false;
    for (auto& job : queue_) {
      Request& request = job->request;
      const int64_t most = std::min(options_.context, static_cast<int64_t>(request.tokens.size()) + request.max_tokens);
      const int64_t logits_from = request.on_logits ? request.logits_from : std::numeric_limits<int64_t>::max();
      job->sequence = &scheduler.add(request.tokens, most, logits_from);
      jobs_.push_back(std::move(job));
    }
    queue_.clear();
    return true;
  }

  Job& job_of(const Sequence& sequence) {
    const auto found =
        std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& job) { return job->sequence == &sequence; });
    return **found;
  }

  // Inside the step, as rows come. What goes wrong with one request is kept for its own end.
  void see_logits(const LogitRow& row, std::span<const float> logits) {
    Job& job = job_of(*row.sequence);
    if (job.error) return;
    try {
      refuse_nan(row.position, logits);
      if (job.request.on_logits && row.position >= job.request.logits_from) job.request.on_logits(row.position, logits);
      if (!row.sample) return;
      job.at_last_token = true;
      if (job.request.max_tokens == 0) return;
      job.picked = pick_token(logits, job.request.sampling, job.request.tokens, job.completion.tokens);
    } catch (...) {
      job.error = std::current_exception();
    }
  }

  // What NaN a sum gives depends on the processor's whim, so equal bits can be promised for numbers only.
  void refuse_nan(int64_t position, std::span<const float> logits) const {
    const auto found = std::find_if(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
    if (found == logits.end()) return;
    fail(ErrorKind::Malformed,
         "{}: the logit of token {} at position {} is not a number; weights or metadata of the file hold values that "
         "are none, or far too large",
         spec_.file, found - logits.begin(), position);
  }

  // After the step: hands out the picked tokens and ends what is complete.
  void commit(Scheduler& scheduler) {
    for (auto& job : jobs_) {
      const bool cancelled = job->request.cancel.stop_requested();
      if (!job->at_last_token && !job->error && !cancelled) continue;
      std::optional<FinishReason> reason;
      try {
        if (cancelled) {
          reason = FinishReason::Cancelled;
        } else if (!job->error) {
          reason = take_token(*job);
        }
      } catch (...) {
        job->error = std::current_exception();
      }
      if (!reason && !job->error) {
        scheduler.append(*job->sequence, job->completion.tokens.back());
        job->at_last_token = false;
        job->picked.reset();
        continue;
      }
      const auto prompt_tokens = static_cast<int64_t>(job->request.tokens.size());
      job->completion.reused_tokens = std::min(job->sequence->reused, prompt_tokens);
      scheduler.remove(*job->sequence);
      if (job->error) {
        job->promise.set_exception(job->error);
      } else {
        job->completion.reason = *reason;
        job->promise.set_value(std::move(job->completion));
      }
      job.reset();
    }
    std::erase(jobs_, nullptr);
  }

  // The reason to end after this step's token, if there is one.
  std::optional<FinishReason> take_token(Job& job) const {
    const Request& request = job.request;
    Completion& completion = job.completion;
    const Clock::time_point now = Clock::now();
    if (job.first_token == Clock::time_point()) {
      job.first_token = now;
      completion.ttft_s = seconds(now - job.submitted);
    }
    completion.decode_s = seconds(now - job.first_token);
    if (!job.picked) return FinishReason::Length;  // only the prompt's logits were wanted
    const PickedToken& picked = *job.picked;
    const auto& stops = request.stop_tokens;
    if (std::find(stops.begin(), stops.end(), picked.token) != stops.end()) return FinishReason::Stop;
    completion.tokens.push_back(picked.token);
    if (request.sampling.logprobs) completion.logprobs.push_back(picked);
    if (request.on_token && !request.on_token(picked)) return FinishReason::Cancelled;
    const auto length = static_cast<int64_t>(completion.tokens.size());
    const bool full = static_cast<int64_t>(request.tokens.size()) + length > options_.context;
    if (length >= request.max_tokens || full) return FinishReason::Length;
    return std::nullopt;
  }

  // The group has ended: every request that is left gets the cause.
  void fail_all(const Error& cause) {
    const std::lock_guard lock(mutex_);
    ended_ = cause;
    for (auto* jobs : {&jobs_, &queue_}) {
      for (auto& job : *jobs) {
        if (job) job->promise.set_exception(std::make_exception_ptr(cause));
      }
      jobs->clear();
    }
  }

  const ModelSpec& spec_;
  const EngineOptions options_;
  const ShardPlan plan_;
  SchedulerOptions limits_;
  std::vector<std::unique_ptr<Job>> jobs_;  // rank 0's thread only

  std::mutex mutex_;
  std::condition_variable work_;
  std::vector<std::unique_ptr<Job>> queue_;  // protected by mutex_, as are the following
  bool stopping_ = false;
  std::optional<Error> ended_;  // why no request can be taken any more

  std::unique_ptr<Executor> executor_;  // last: its threads use everything above
};

Engine::Engine(const Checkpoint& checkpoint, const ModelSpec& spec, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(checkpoint, spec, options)) {}

Engine::~Engine() = default;

std::future<Completion> Engine::submit(Request request) {
  std::vector<Request> one;
  one.push_back(std::move(request));
  return std::move(impl_->submit(std::move(one)).front());
}

std::vector<std::future<Completion>> Engine::submit(std::vector<Request> requests) {
  return impl_->submit(std::move(requests));
}

const ShardPlan& Engine::plan() const {
  return impl_->plan();
}
const Placement& Engine::placement() const {
  return impl_->placement();
}
std::vector<RankReport> Engine::reports() const {
  return impl_->reports();
}

}  // namespace lockstep
