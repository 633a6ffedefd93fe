// The door of engine/: requests in, tokens out.
//
// One Engine holds one tensor-parallel group: N ranks, each a leader thread with its team, which load their slices in
// the constructor and then walk every step together. Rank 0 alone schedules and samples; one flat message a step tells
// the others. `generate`, `verify` and the server are faces of this class. scheduler.cc decides what a step holds (no
// threads, no tensors); step.cc is the message; sampler.cc picks tokens; executor.cc runs the ranks; engine.cc moves
// requests through all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/fault_injection.h"
#include "base/placement.h"
#include "base/trace.h"
#include "checkpoint/checkpoint.h"
#include "decoder/decoder.h"
#include "model/model.h"
#include "plan/plan.h"

namespace lockstep {

struct LogitBias {
  int32_t token = 0;
  double value = 0;  // added to the logit; -inf rules the token out
};

// How a token is drawn, in the order in which it happens; docs/sampling.md has the definitions. Neutral by default, so
// that the likeliest token is taken. The random number depends on the seed and the token's position alone.
struct SamplingOptions {
  std::vector<LogitBias> logit_bias{};  // no token twice
  double repeat_penalty = 1;            // 0.001..1000; for tokens of the prompt and generated ones
  double presence_penalty = 0;          // -2..2; once for each generated token
  double frequency_penalty = 0;         // -2..2; for each time a token was generated
  double temperature = 0;               // 0..1e6; 0: the largest wins, of equal ones the lowest id, and no more is done
  int64_t top_k = 0;                    // >= 0; keeps the k largest; 0: all
  double top_p = 1;                     // 0..1; keeps the fewest whose probabilities reach it, at least one
  double min_p = 0;                     // 0..1; drops what is below min_p times the largest probability
  uint64_t seed = 0;
  std::optional<int64_t> logprobs{};  // 0..20; how many likeliest tokens are reported beside the one drawn
};

// Throws Error(Usage) that names the option, its value and the range. vocab: of the model, once it is known.
void check(const SamplingOptions& options, std::optional<int64_t> vocab = {});

// Of the model's own distribution: before bias, penalties and temperature. Natural logarithm.
struct TokenLogprob {
  int32_t token = 0;
  double logprob = 0;
};

struct PickedToken {
  int32_t token = 0;
  double logprob = 0;             // 0 unless options.logprobs is set, as top is empty
  std::vector<TokenLogprob> top;  // likeliest first, of equal ones the lowest id; none of probability 0
};

// logits: [vocab], numbers. prompt, generated: the tokens before, of which there are as many as the new one's position.
// Throws Error(Usage) when logit_bias, Error(Malformed) when the model leaves no token to draw.
PickedToken pick_token(std::span<const float> logits, const SamplingOptions& options, std::span<const int32_t> prompt,
                       std::span<const int32_t> generated);

enum class FinishReason : uint8_t { Stop, Length, Cancelled };

struct Completion {
  std::vector<int32_t> tokens;        // generated; without the stop token
  std::vector<PickedToken> logprobs;  // [tokens] when sampling.logprobs is set, else empty
  FinishReason reason = FinishReason::Stop;
  int64_t reused_tokens = 0;  // of the prompt, those that were not read again: EngineOptions::reuse_prefixes
  double ttft_s = 0;          // from submit to the first token
  double prefill_s = 0;       // in steps that held prompt rows of this sequence
  double decode_s = 0;        // from the first token to the last
};

// The callbacks run on rank 0's thread, on_token between steps and on_logits inside one, while the other ranks wait:
// they must be quick (a callback that blocks for the stall limit ends the group) and must not call the engine. What a
// callback throws ends its own request: the future holds the exception.
struct Request {
  std::vector<int32_t> tokens;  // the prompt, at least one
  int64_t max_tokens = 0;       // 0: the prompt is read, nothing is generated
  SamplingOptions sampling;
  std::vector<int32_t> stop_tokens;                  // a token that ends the generation
  std::function<bool(const PickedToken&)> on_token;  // may be empty; false cancels
  // When set: logits of every position from logits_from on, ascending ([vocab] each; position of the input token).
  std::function<void(int64_t position, std::span<const float> logits)> on_logits;
  int64_t logits_from = 0;
  std::stop_token cancel{};  // asked after every step, also while the prompt is read: its token is then dropped
};

struct EngineOptions {
  PlanOptions plan;
  int threads = 1;              // of each rank; 0: one on each physical core that the rank gets
  bool pin = false;             // pin each thread as placement() says; false: the system moves them about
  int64_t context = 0;          // most positions of a sequence
  int64_t max_sequences = 1;    // decoded together
  int64_t prefill_chunk = 512;  // prompt rows of a step; 0: whole prompts
  int64_t pages = 0;            // of the KV cache; 0: enough for max_sequences whole contexts
  DType kv_dtype = DType::F16;
  // Requests that end leave their KV cache, while there is room, to those that begin with the same tokens. (Models
  // with recurrent layers: with all of its tokens.) The logits are the same bits.
  bool reuse_prefixes = false;
  std::chrono::milliseconds stall{2000};
  bool check_comm = false;  // compare every collective across ranks
  FaultInjection faults;
  std::vector<Recorder*> recorders;                          // [ranks] or empty; not owned
  Trace* trace = nullptr;                                    // gets a lane a rank; not owned; outlives the engine
  std::function<void(int64_t done, int64_t total)> on_load;  // bytes, from the constructing thread
};

struct RankReport {
  int rank = 0;
  int64_t weight_bytes = 0, replicated_bytes = 0, read_bytes = 0, kv_bytes = 0;
  int64_t weight_bytes_per_token = 0;            // read by one decode row
  int64_t comm_calls = 0, comm_bytes = 0;        // in forward passes so far, as plan.sites lists them
  double compute_s = 0, comm_s = 0, wait_s = 0;  // in steps so far; comm_s without the waiting
};

// submit() and reports() may be called from any thread.
class Engine {
 public:
  // Loads. Throws Error: DoesNotFit for a context or a division that is not possible, what a rank threw while loading.
  // The references must outlive the engine.
  Engine(const Checkpoint& checkpoint, const ModelSpec& spec, const EngineOptions& options);
  ~Engine();  // cancels what is left and joins every thread
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Throws Error(Usage) for a request that can never run (empty, longer than the context, an id outside the
  // vocabulary), Error(RankFailed) when the group has ended. The future holds Error(RankFailed) when the group ends
  // meanwhile, Error(Cancelled) when the engine is destroyed first, Error(Malformed) when a logit is not a number.
  std::future<Completion> submit(Request request);
  // The same for several, none of which is begun before all are queued.
  std::vector<std::future<Completion>> submit(std::vector<Request> requests);

  const ShardPlan& plan() const;
  const Placement& placement() const;
  std::vector<RankReport> reports() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
