// From flags to a running engine.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/function_ref.h"
#include "cli/flags.h"
#include "cli/model_files.h"
#include "engine/engine.h"

namespace lockstep {

// What the environment forces (LOCKSTEP_*), to be refused before anything is opened. Throws Error(Usage).
void check_environment();

// Ranks, shares and modes. Throws Error(Usage) when --tp-size and --tp-split disagree.
PlanOptions plan_options(const Flags& flags, const ModelSpec& spec);

// Most positions a sequence may have: --ctx, or the model's. Throws Error(DoesNotFit) when --ctx is larger.
int64_t most_positions(const Flags& flags, const ModelSpec& spec);

// Positions for a prompt and what may follow it: --ctx, or just enough. Throws Error(DoesNotFit) for a prompt that is
// longer, before anything is loaded.
int64_t context_for(const Flags& flags, const ModelSpec& spec, int64_t prompt_tokens, int64_t max_tokens);

// The flags of add_group_flags, and what the environment says about faults.
void set_running_options(const Flags& flags, EngineOptions& options);

// One sequence with the flags of add_step_flags, add_number_flags and add_group_flags, and faults likewise. Throws
// Error(Usage) for a fault of a rank that there is not.
EngineOptions engine_options(const Flags& flags, const ModelSpec& spec, int64_t context);

// Loads. With `announce`, a bar is drawn on standard error and the log gets one line that says where the ranks run
// (info) and one a rank (debug); without, all of that is debug. Memory that could not be had becomes Error(DoesNotFit)
// with the sizes.
// `while_loading` is called now and then.
std::unique_ptr<Engine> load_engine(
    const Model& model, EngineOptions options, bool announce, FunctionRef<void()> while_loading = [] {});

// A table of what each rank holds and where its time went.
std::string format_ranks(std::span<const RankReport> ranks);

}  // namespace lockstep
