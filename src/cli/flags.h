// The flags that commands share: their values, and one declaration of each. A command declares the groups it uses.
#pragma once

#include <spdlog/common.h>
#include <CLI/App.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "plan/plan.h"

namespace lockstep {

enum class Activations : uint8_t { Auto, Float32 };

// Of each share in --tp-split and --tp-splits: far beyond what a division can tell apart, and sums stay exact.
inline constexpr Bounds<double> kShareRange{0, 1e6};

struct Flags {
  std::string model;

  bool json = false;
  bool quiet = false;
  spdlog::level::level_enum log_level = spdlog::level::info;

  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;
  std::optional<std::vector<int64_t>> tokens;
  bool parse_special = false;

  std::optional<int64_t> tp_size;  // nothing: auto
  bool tp_size_given = false;
  std::vector<double> tp_split;
  VocabMode embedding = VocabMode::VocabParallel;
  VocabMode lm_head = VocabMode::VocabParallel;
  ReduceMode reduce = ReduceMode::Tree;

  std::optional<int64_t> threads;
  std::optional<int64_t> context;
  int64_t prefill_chunk = 512;
  Activations activations = Activations::Auto;
  std::optional<DType> kv_dtype;

  int64_t stall_ms = 2000;
  bool no_pin = false;

  std::optional<std::string> trace;

  // What --kv-dtype and --activations come to.
  DType kv() const { return kv_dtype.value_or(activations == Activations::Float32 ? DType::F32 : DType::F16); }
};

void add_model_flags(CLI::App& app, Flags& flags);         // --model, --quiet, --log-level; sets the log's level
void add_json_flag(CLI::App& app, Flags& flags);           // --json
void add_prompt_flags(CLI::App& app, Flags& flags);        // --prompt, --file, --tokens, --parse-special
void add_text_flags(CLI::App& app, Flags& flags);          // --prompt, --file, --parse-special
CLI::Option* add_token_flag(CLI::App& app, Flags& flags);  // --tokens
void add_size_flags(CLI::App& app, Flags& flags);          // --tp-size, --tp-split
void add_mode_flags(CLI::App& app, Flags& flags);          // --tp-embedding-mode, --tp-lm-head-mode, --tp-reduce
void add_number_flags(CLI::App& app, Flags& flags);        // --activations, --kv-dtype
void add_context_flag(CLI::App& app, Flags& flags);        // --ctx
void add_step_flags(CLI::App& app, Flags& flags);          // --threads, --prefill-chunk
void add_group_flags(CLI::App& app, Flags& flags);         // --stall-ms, --no-pin
void add_trace_flag(CLI::App& app, Flags& flags);          // --trace

}  // namespace lockstep
