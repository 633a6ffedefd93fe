// The checked sequence and those that share its steps.
#include "cli/verify_run.h"

#include <algorithm>

#include "base/checked.h"
#include "cli/engine_setup.h"
#include "cli/sha256.h"

namespace lockstep {
namespace {

// A prompt of its own length and content for each of the sequences around the checked one.
std::vector<TokenId> neighbour(const RunSetup& setup, int64_t index, int64_t batch) {
  const auto size = static_cast<int64_t>(setup.prompt.size());
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < 1 + size * index / batch; ++i) {
    const int64_t token = setup.prompt[static_cast<size_t>((i + index + 1) % size)];
    tokens.push_back(static_cast<TokenId>((token + index + 1) % setup.model.spec.vocab));
  }
  tokens.resize(std::min(tokens.size(), setup.prompt.size()));
  return tokens;
}

}  // namespace

PlanOptions plan_of(const RunShape& shape, const Flags& flags) {
  PlanOptions plan;
  plan.tp_size = shape.tp_size;
  plan.shares = shape.shares;
  plan.embedding = flags.embedding;
  plan.lm_head = flags.lm_head;
  plan.reduce = flags.reduce;
  return plan;
}

RunOutcome run_once(const RunSetup& setup, const RunShape& shape, const RunObserver& observer) {
  EngineOptions options;
  options.plan = plan_of(shape, setup.flags);
  options.plan.every_leaf = observer.every_leaf;
  options.threads = shape.threads;
  options.context = setup.context;
  options.max_sequences = shape.batch;
  options.prefill_chunk = shape.chunk;
  options.kv_dtype = setup.flags.kv();
  set_running_options(setup.flags, options);
  options.recorders = observer.recorders;

  RunOutcome outcome;
  Sha256 hash;
  std::vector<Request> requests;
  for (int64_t i = 0; i < shape.batch; ++i) {
    Request request;
    request.max_tokens = kVerifyDecodes;
    if (i == checked_slot(shape)) {
      request.tokens = setup.prompt;
      request.on_logits = [&](int64_t position, std::span<const float> logits) {
        hash.add(logits);
        if (observer.on_logits) observer.on_logits(position, logits);
      };
    } else {
      request.tokens = neighbour(setup, i, shape.batch);
    }
    requests.push_back(std::move(request));
  }
  const auto engine = load_engine(setup.model, options, false);
  auto done = engine->submit(std::move(requests));
  outcome.tokens = done[static_cast<size_t>(checked_slot(shape))].get().tokens;
  for (auto& other : done) {
    if (other.valid()) other.get();
  }
  outcome.sha256 = hash.finish();
  return outcome;
}

}  // namespace lockstep
