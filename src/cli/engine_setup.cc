// Flags, the machine's topology and the model's limits -> EngineOptions.
#include "cli/engine_setup.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/topology.h"
#include "cli/output.h"

namespace lockstep {

void check_environment() {
  selected_isa();
  FaultInjection::from_environment();
}

PlanOptions plan_options(const Flags& flags, const ModelSpec& spec) {
  PlanOptions options;
  const auto shares = static_cast<int64_t>(flags.tp_split.size());
  if (flags.tp_size && shares > 0 && *flags.tp_size != shares) {
    fail(ErrorKind::Usage, "--tp-size is {}, but --tp-split has {} shares; leave one of them out or make them agree",
         *flags.tp_size, shares);
  }
  if (flags.tp_size) {
    options.tp_size = static_cast<int>(*flags.tp_size);
  } else if (shares > 0) {
    options.tp_size = static_cast<int>(shares);
  } else {
    const auto nodes = static_cast<int64_t>(read_topology().nodes.size());
    options.tp_size = static_cast<int>(std::min(nodes, largest_tp_size(spec)));
  }
  options.shares = flags.tp_split;
  options.embedding = flags.embedding;
  options.lm_head = flags.lm_head;
  options.reduce = flags.reduce;
  return options;
}

int64_t most_positions(const Flags& flags, const ModelSpec& spec) {
  if (flags.context && *flags.context > spec.context) {
    fail(ErrorKind::DoesNotFit, "--ctx {} is longer than the {} positions that {} was made for", *flags.context,
         spec.context, spec.file);
  }
  return flags.context.value_or(spec.context);
}

int64_t context_for(const Flags& flags, const ModelSpec& spec, int64_t prompt_tokens, int64_t max_tokens) {
  const int64_t most = most_positions(flags, spec);
  if (prompt_tokens > most) {
    fail(ErrorKind::DoesNotFit, "the prompt has {} tokens, but {} holds {}", prompt_tokens,
         flags.context ? "--ctx" : spec.file, most);
  }
  return flags.context ? most : prompt_tokens + std::min(max_tokens, most - prompt_tokens);
}

void set_running_options(const Flags& flags, EngineOptions& options) {
  options.stall = std::chrono::milliseconds(flags.stall_ms);
  options.pin = !flags.no_pin;
  options.faults = FaultInjection::from_environment();
}

EngineOptions engine_options(const Flags& flags, const ModelSpec& spec, int64_t context) {
  EngineOptions options;
  options.plan = plan_options(flags, spec);
  options.threads = static_cast<int>(flags.threads.value_or(0));
  options.context = context;
  options.prefill_chunk = flags.prefill_chunk;
  options.kv_dtype = flags.kv();
  set_running_options(flags, options);
  if (const auto& fault = options.faults.fault; fault && fault->rank >= options.plan.tp_size) {
    fail(ErrorKind::Usage, "LOCKSTEP_TEST_FAULT names rank {}; this run has the ranks 0 to {}", fault->rank,
         options.plan.tp_size - 1);
  }
  return options;
}

std::unique_ptr<Engine> load_engine(const Model& model, EngineOptions options, bool announce,
                                    FunctionRef<void()> while_loading) {
  const ShardPlan plan = make_plan(model.spec, options.plan);
  std::optional<ProgressBar> bar(std::in_place, announce, "loading");
  options.on_load = [&](int64_t done, int64_t total) {
    bar->show(done, total);
    while_loading();
  };
  try {
    auto engine = std::make_unique<Engine>(*model.checkpoint, model.spec, options);
    bar.reset();  // before the log writes to the same line
    spdlog::log(announce ? spdlog::level::info : spdlog::level::debug, "{}: tp {}, {} kernels; {}", model.spec.file,
                options.plan.tp_size, selected_isa(), describe(engine->placement()));
    for (const RankReport& rank : engine->reports()) {
      spdlog::debug("rank {}: weights {}, {} of them held by others too, {} read, KV cache {}", rank.rank,
                    human_bytes(rank.weight_bytes), human_bytes(rank.replicated_bytes), human_bytes(rank.read_bytes),
                    human_bytes(rank.kv_bytes));
    }
    return engine;
  } catch (const std::bad_alloc&) {
    int64_t weights = 0, kv_per_token = 0;
    for (const RankPlan& rank : plan.ranks) {
      weights += rank.weight_bytes;
      kv_per_token += rank.kv_values_per_token * info(options.kv_dtype).block_bytes;
    }
    fail(
        ErrorKind::DoesNotFit,
        "{}: no memory for {} ranks: {} of weights, {} of KV cache for {} sequences of {} positions, and buffers; less "
        "is needed with a smaller --ctx or --prefill-chunk",
        model.spec.file, plan.tp_size(), human_bytes(weights),
        human_bytes(kv_per_token * options.context * options.max_sequences), options.max_sequences, options.context);
  }
}

std::string format_ranks(std::span<const RankReport> ranks) {
  std::vector<std::vector<std::string>> rows{
      {"rank", "weights", "replicated", "read", "kv cache", "compute s", "comm s", "wait s"}};
  for (const RankReport& rank : ranks) {
    rows.push_back({std::to_string(rank.rank), human_bytes(rank.weight_bytes), human_bytes(rank.replicated_bytes),
                    human_bytes(rank.read_bytes), human_bytes(rank.kv_bytes), fmt::format("{:.3f}", rank.compute_s),
                    fmt::format("{:.3f}", rank.comm_s), fmt::format("{:.3f}", rank.wait_s)});
  }
  return format_table(rows, 0);
}

}  // namespace lockstep
