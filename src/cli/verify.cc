// lockstep verify: shows that the logits of a model are the same bits whatever the number of ranks, their shares, the
// prefill chunk, the other sequences of a batch and the number of threads; and where not, where the difference begins.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>

#include "base/error.h"
#include "cli/command.h"
#include "cli/engine_setup.h"
#include "cli/first_difference.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/verify_run.h"

namespace lockstep {
namespace {

constexpr int64_t kRandomPrompt = 96;

struct VerifyFlags : Flags {
  std::vector<int64_t> tp_sizes{1, 2, 3};
  bool tp_sizes_given = false;
  std::vector<std::vector<double>> tp_splits;
  std::vector<int64_t> chunks{0};
  std::vector<int64_t> batches{1};
  std::vector<int64_t> thread_counts{1};
  uint64_t seed = 0;
};

// At least one id. They do not depend on the standard library: the generator's output is fixed, and no distribution is
// used.
std::vector<TokenId> random_prompt(const ModelSpec& spec, int64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens;
  do {
    tokens.push_back(static_cast<TokenId>(random() % static_cast<uint64_t>(spec.vocab)));
  } while (static_cast<int64_t>(tokens.size()) < size);
  return tokens;
}

// Every combination of what the flags list, in their order; divisions vary slowest. Refuses what cannot be divided.
std::vector<RunShape> list_runs(const VerifyFlags& flags, const ModelSpec& spec) {
  std::vector<RunShape> divisions;
  for (const int64_t size : flags.tp_sizes) {
    if (!flags.tp_sizes_given && size > largest_tp_size(spec)) continue;
    divisions.push_back({static_cast<int>(size), {}, 0, 1, 1});
  }
  for (const auto& shares : flags.tp_splits) divisions.push_back({static_cast<int>(shares.size()), shares, 0, 1, 1});
  std::vector<RunShape> runs;
  for (RunShape run : divisions) {
    make_plan(spec, plan_of(run, flags));
    for (const int64_t chunk : flags.chunks) {
      for (const int64_t batch : flags.batches) {
        for (const int64_t threads : flags.thread_counts) {
          run.chunk = chunk;
          run.batch = batch;
          run.threads = static_cast<int>(threads);
          runs.push_back(run);
        }
      }
    }
  }
  return runs;
}

std::string describe(const RunShape& run) {
  std::string shares;
  for (const double share : run.shares) shares += fmt::format("{}{}", shares.empty() ? " (" : ",", share);
  if (!shares.empty()) shares += ")";
  return fmt::format("tp {}{}, chunk {}, batch {}, threads {}", run.tp_size, shares, run.chunk, run.batch, run.threads);
}

Json to_json(const RunShape& run, const std::string& sha256) {
  return {{"tp_size", run.tp_size}, {"tp_split", run.shares.empty() ? Json(nullptr) : Json(run.shares)},
          {"chunk", run.chunk},     {"batch", run.batch},
          {"threads", run.threads}, {"sha256", sha256}};
}

Json to_json(const std::optional<FirstDifference>& difference) {
  if (!difference) return nullptr;
  return {{"layer", difference->layer},
          {"tensor", difference->tensor},
          {"rank", difference->rank},
          {"position", difference->position},
          {"unit", difference->unit}};
}

int verify(const VerifyFlags& flags) {
  check_environment();
  std::optional<Prompt> prompt;
  if (has_prompt(flags)) prompt = read_prompt(flags);
  const Model model = open_model(flags.model);
  const std::vector<RunShape> runs = list_runs(flags, model.spec);
  RunSetup setup{model, flags, {}, 0};
  const int64_t most = most_positions(flags, model.spec);
  setup.prompt = prompt ? encode_prompt(*prompt, model, flags)
                        : random_prompt(model.spec, std::min(kRandomPrompt, most - kVerifyDecodes), flags.seed);
  const auto prompt_tokens = static_cast<int64_t>(setup.prompt.size());
  if (prompt_tokens + kVerifyDecodes > most) {
    fail(ErrorKind::DoesNotFit,
         "the prompt ({}) and the tokens decoded after it ({}) need {} positions, but {} holds {}", prompt_tokens,
         kVerifyDecodes, prompt_tokens + kVerifyDecodes, flags.context ? "--ctx" : model.spec.file, most);
  }
  setup.context = context_for(flags, model.spec, prompt_tokens, kVerifyDecodes);

  const auto note = [&](const std::string& line) {
    if (!flags.quiet) print_note(line + "\n");
  };
  std::string sha256;
  std::optional<RunShape> differing;
  Json results = Json::array();
  for (const RunShape& run : runs) {
    const std::string found = run_once(setup, run, {}).sha256;
    if (sha256.empty()) sha256 = found;
    if (found != sha256 && !differing) differing = run;
    note(fmt::format("{}: {} {}", describe(run), found, found == sha256 ? "same" : "DIFFERENT"));
    results.push_back(to_json(run, found));
  }
  std::optional<FirstDifference> difference;
  if (differing) {
    difference = find_first_difference(setup, runs.front(), *differing);
    if (difference) {
      note(fmt::format("first difference: layer {}, {}, rank {} (position {}, unit {}) in {}", difference->layer,
                       difference->tensor, difference->rank, difference->position, difference->unit,
                       describe(*differing)));
    } else {
      note(fmt::format("the difference of {} did not show again when it was repeated", describe(*differing)));
    }
  }
  if (flags.json) {
    print_json({{"identical", !differing.has_value()},
                {"sha256", sha256},
                {"runs", std::move(results)},
                {"first_difference", to_json(difference)}});
  } else {
    print_text(fmt::format("{}: {} runs, sha256 {}\n", differing ? "different" : "identical", runs.size(), sha256));
  }
  return differing ? 1 : 0;
}

std::vector<std::vector<double>> parse_splits(std::string_view text) {
  std::vector<std::vector<double>> splits;
  for (const std::string_view shares : split(text, ';')) {
    const std::string place = fmt::format("--tp-splits, division {}", splits.size() + 1);
    splits.push_back(parse_list<double>(place, shares, kShareRange));
  }
  return splits;
}

}  // namespace

CommandBody declare_verify(CLI::App& app) {
  const auto flags = std::make_shared<VerifyFlags>();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  add_model_flags(app, *flags);
  add_json_flag(app, *flags);
  add_prompt_flags(app, *flags);
  add_list<int64_t>(app, "--tp-sizes", flags->tp_sizes, {1, 1 << 16},
                    "numbers of ranks; default: 1,2,3 as far as the model allows")
      ->each([flags = flags.get()](const std::string&) { flags->tp_sizes_given = true; });
  app.add_option_function<std::string>(
         "--tp-splits", [flags = flags.get()](const std::string& text) { flags->tp_splits = parse_splits(text); },
         with_range("further divisions, by shares: '2,1;3,1' is one over two ranks with shares 2 and 1, and one with 3 "
                    "and 1; default: none",
                    kShareRange))
      ->type_name("N,N;...");
  add_list<int64_t>(app, "--chunks", flags->chunks, {0, kMost},
                    "prompt tokens of a step; 0: the whole prompt; default: 0");
  add_list<int64_t>(app, "--batches", flags->batches, {1, 4096},
                    "sequences that share the steps: the checked one among N-1 others; default: 1");
  add_list<int64_t>(app, "--threads", flags->thread_counts, {1, 4096}, "threads of each rank; default: 1");
  add_number<uint64_t>(app, "--seed", flags->seed, {0, std::numeric_limits<uint64_t>::max()},
                       "seed of the random prompt");
  add_mode_flags(app, *flags);
  add_context_flag(app, *flags);
  add_number_flags(app, *flags);
  add_group_flags(app, *flags);
  app.footer(fmt::format(
      "Runs every combination of the lists: the prompt (default: {} random tokens, fewer where --ctx holds fewer), "
      "then\n"
      "{} tokens decoded greedily. sha256 covers the float32 bytes of the logits of every position, in order. Exit\n"
      "status 1 when any run differs from the first; first_difference then names the layer (-1: outside the layers),\n"
      "the tensor and the rank where the first different run begins to differ.",
      kRandomPrompt, kVerifyDecodes));
  return [flags] { return verify(*flags); };
}

}  // namespace lockstep
