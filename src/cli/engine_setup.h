// From flags to a running engine.
#pragma once

#include <memory>

#include "cli/flags.h"
#include "cli/model_files.h"
#include "engine/engine.h"

namespace lockstep {

// Ranks, shares and modes. Throws Error(Usage) when --tp-size and --tp-split disagree.
PlanOptions plan_options(const Flags& flags, const ModelSpec& spec);

// Processors this process may use, divided by the ranks; at least 1.
int default_threads(int tp_size);

// Positions for a prompt and what may follow it: --ctx, or just enough. Throws Error(DoesNotFit) for a prompt that is
// longer, before anything is loaded.
int64_t context_for(const Flags& flags, const ModelSpec& spec, int64_t prompt_tokens, int64_t max_tokens);

// One sequence with the flags of add_step_flags, add_number_flags and what the environment says about faults.
EngineOptions engine_options(const Flags& flags, const ModelSpec& spec, int64_t context);

// Loads. `progress` draws a bar on standard error. Memory that could not be had becomes Error(DoesNotFit) with the
// sizes.
std::unique_ptr<Engine> load_engine(const Model& model, EngineOptions options, bool progress);

}  // namespace lockstep
