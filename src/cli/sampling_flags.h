// The flags that say how tokens are drawn.
#pragma once

#include <CLI/App.hpp>

#include "engine/engine.h"

namespace lockstep {

// All of SamplingOptions but seed and log-probabilities.
void add_sampling_flags(CLI::App& app, SamplingOptions& sampling);

}  // namespace lockstep
