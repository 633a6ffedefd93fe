// Names, values, defaults and help of the common flags.
#include "cli/flags.h"

#include <spdlog/spdlog.h>

#include <limits>

namespace lockstep {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostTokenId = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostRanks = 1 << 16;
constexpr int64_t kMostThreads = 1 << 12;

constexpr auto kVocabModes = std::to_array<Choice<VocabMode>>(
    {{"vocab_parallel", VocabMode::VocabParallel}, {"replicated", VocabMode::Replicated}});
constexpr auto kReduceModes =
    std::to_array<Choice<ReduceMode>>({{"tree", ReduceMode::Tree}, {"ring", ReduceMode::Ring}});
constexpr auto kActivations =
    std::to_array<Choice<Activations>>({{"auto", Activations::Auto}, {"f32", Activations::Float32}});
constexpr auto kKvDtypes =
    std::to_array<Choice<DType>>({{"f16", DType::F16}, {"bf16", DType::BF16}, {"f32", DType::F32}});
constexpr auto kLogLevels = std::to_array<Choice<spdlog::level::level_enum>>({{"debug", spdlog::level::debug},
                                                                              {"info", spdlog::level::info},
                                                                              {"warn", spdlog::level::warn},
                                                                              {"error", spdlog::level::err},
                                                                              {"off", spdlog::level::off}});

}  // namespace

void add_model_flags(CLI::App& app, Flags& flags) {
  app.add_option(
         "-m,--model", flags.model,
         "the model: a .gguf file or the first of a split one, or a folder with config.json and .safetensors files")
      ->type_name("PATH")
      ->required();
  app.add_flag("--quiet", flags.quiet, "nothing but errors on standard error: no progress, no figures, no log");
  add_choice(
      app, "--log-level", flags.log_level, kLogLevels,
      "least level of the log on standard error; info: where the ranks run; debug: what was opened, and what each "
      "rank loaded");
  app.parse_complete_callback([&flags] { spdlog::set_level(flags.quiet ? spdlog::level::off : flags.log_level); });
}

void add_json_flag(CLI::App& app, Flags& flags) {
  app.add_flag("--json", flags.json, "print one JSON object on standard output and nothing else there");
}

void add_text_flags(CLI::App& app, Flags& flags) {
  app.add_option("-p,--prompt", flags.prompt, "the text; it may begin with '-'")->type_name("TEXT");
  app.add_option("-f,--file", flags.prompt_file, "a file that holds the text; '-' is standard input")
      ->type_name("FILE");
  app.add_flag("--parse-special", flags.parse_special,
               "special tokens written in the text become their ids; else they are text like any other");
}

CLI::Option* add_token_flag(CLI::App& app, Flags& flags) {
  const Bounds<int64_t> range{0, kMostTokenId};
  const auto read = [&flags, range](const std::string& text) {
    flags.tokens = parse_list<int64_t>("--tokens", text, range, true);
  };
  return app
      .add_option_function<std::string>("--tokens", read,
                                        with_range("token ids, taken as they are: nothing is put before them", range))
      ->type_name("N,N,...");
}

void add_prompt_flags(CLI::App& app, Flags& flags) {
  add_text_flags(app, flags);
  add_token_flag(app, flags);
}

void add_size_flags(CLI::App& app, Flags& flags) {
  const Bounds<int64_t> range{1, kMostRanks};
  const auto read = [&flags, range](const std::string& text) {
    flags.tp_size_given = true;
    flags.tp_size.reset();
    if (text != "auto") flags.tp_size = parse_number<int64_t>("--tp-size", text, range);
  };
  app.add_option_function<std::string>(
         "--tp-size", read,
         with_range("ranks that divide the model; auto: one a NUMA node that this process "
                    "may use, as far as the model allows, or as many as --tp-split has shares",
                    range))
      ->type_name("N|auto")
      ->default_str("auto");
  add_list<double>(app, "--tp-split", flags.tp_split, kShareRange,
                   "share of each rank, as in 3,1, rounded to whole units by largest remainder; default: equal shares");
}

void add_mode_flags(CLI::App& app, Flags& flags) {
  add_choice(app, "--tp-embedding-mode", flags.embedding, kVocabModes, "how ranks hold the token embedding");
  add_choice(app, "--tp-lm-head-mode", flags.lm_head, kVocabModes, "how ranks hold the output head");
  add_choice(
      app, "--tp-reduce", flags.reduce, kReduceModes,
      "how partial sums are joined; tree: the same bits for every number of ranks; ring: fewest bytes a rank, bits "
      "depend on their number");
}

void add_number_flags(CLI::App& app, Flags& flags) {
  add_choice(app, "--activations", flags.activations, kActivations,
             "numbers that flow between weights; both are float32 in this version, f32 also sets --kv-dtype f32");
  add_choice(app, "--kv-dtype", flags.kv_dtype, kKvDtypes,
             "numbers of the KV cache; default: f16, or f32 when --activations is f32");
}

void add_context_flag(CLI::App& app, Flags& flags) {
  add_number<int64_t>(app, "--ctx", flags.context, {1, kMost},
                      "positions the KV cache holds, at most the model's; default: what prompt and new tokens need");
}

void add_step_flags(CLI::App& app, Flags& flags) {
  add_number<int64_t>(app, "--threads", flags.threads, {1, kMostThreads},
                      "threads of each rank; default: one on each physical core that the rank gets");
  add_number<int64_t>(app, "--prefill-chunk", flags.prefill_chunk, {0, kMost},
                      "prompt tokens of one step; 0: the whole prompt at once");
}

void add_group_flags(CLI::App& app, Flags& flags) {
  add_number<int64_t>(app, "--stall-ms", flags.stall_ms, {100, 3'600'000},
                      "milliseconds that a rank may stand still while others wait for it; then all end with an error");
  app.add_flag("--no-pin", flags.no_pin,
               "leave threads where the system or numactl puts them; else each is pinned to a processor of its rank's "
               "NUMA nodes");
}

void add_trace_flag(CLI::App& app, Flags& flags) {
  app.add_option("--trace", flags.trace,
                 "where each rank's time goes: computing by operation, communicating and waiting, as trace events that "
                 "https://ui.perfetto.dev opens; written at the end, also when a rank has failed")
      ->type_name("FILE.json");
}

}  // namespace lockstep
