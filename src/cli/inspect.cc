// lockstep inspect: what is in a checkpoint, or what each rank would hold of it. Reads headers only.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/quoted.h"
#include "cli/chat_setup.h"
#include "cli/command.h"
#include "cli/engine_setup.h"
#include "cli/flags.h"
#include "cli/model_files.h"
#include "cli/output.h"

namespace lockstep {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// ---- the checkpoint ----

// The tokenizer's description, or why this version cannot use it.
struct TokenizerState {
  Json description;
  std::string problem;
};

TokenizerState tokenizer_state(const Checkpoint& checkpoint) {
  try {
    const auto tokenizer = read_tokenizer(checkpoint);
    if (tokenizer == nullptr) return {nullptr, "none"};
    return {std::string(tokenizer->description()), ""};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Unsupported) throw;
    spdlog::warn("{}", one_line(error.what()));
    return {nullptr, error.what()};
  }
}

std::string format_shape(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t side : shape) text += (text.empty() ? "" : " x ") + std::to_string(side);
  return text;
}

int inspect_checkpoint(const Flags& flags, const Checkpoint& checkpoint, const ModelSpec& spec) {
  const TokenizerState tokenizer = tokenizer_state(checkpoint);
  const bool chat_template = has_chat_template(checkpoint);
  const LayerSpec& layer = spec.layers.front();
  if (flags.json) {
    Json tensors = Json::array();
    for (const TensorInfo& tensor : checkpoint.tensors()) {
      tensors.push_back({{"name", tensor.name},
                         {"dtype", info(tensor.dtype).name},
                         {"shape", tensor.shape},
                         {"bytes", tensor.bytes()}});
    }
    for (const UnusableTensor& tensor : checkpoint.unusable()) {
      tensors.push_back(
          {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"bytes", tensor.bytes.size()}});
    }
    print_json({{"architecture", spec.architecture},
                {"parameters", spec.parameters()},
                {"tensors", std::move(tensors)},
                {"tokenizer", tokenizer.description},
                {"chat_template", chat_template},
                {"format", checkpoint.format()},
                {"file_bytes", checkpoint.file_bytes()},
                {"layers", spec.layers.size()},
                {"hidden", spec.hidden},
                {"vocab", spec.vocab},
                {"context", spec.context},
                {"largest_tp_size", largest_tp_size(spec)}});
    return 0;
  }
  const auto line = [](const char* name, const std::string& value) { return std::vector<std::string>{name, value}; };
  const Rows facts{
      line("architecture", spec.architecture),
      line("format", fmt::format("{}, {}", checkpoint.format(), human_bytes(checkpoint.file_bytes()))),
      line("parameters", std::to_string(spec.parameters())),
      line("layers",
           fmt::format("{}: hidden {}, {} query heads, {} KV heads of {}, feed-forward {} (first layer)",
                       spec.layers.size(), spec.hidden, layer.heads, layer.kv_heads, layer.head_dim, layer.ffn)),
      line("vocabulary", fmt::format("{}{}", spec.vocab, spec.tied_head ? ", the head is the embedding" : "")),
      line("context", std::to_string(spec.context)),
      line("tokenizer", tokenizer.problem.empty() ? tokenizer.description.get<std::string>() : tokenizer.problem),
      line("chat template", chat_template ? "yes" : "no"),
      line("--tp-size", fmt::format("1 to {}", largest_tp_size(spec))),
  };
  Rows tensors{{"tensor", "dtype", "shape", "bytes"}};
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    tensors.push_back({one_line(tensor.name), std::string(info(tensor.dtype).name), format_shape(tensor.shape),
                       std::to_string(tensor.bytes())});
  }
  for (const UnusableTensor& tensor : checkpoint.unusable()) {
    tensors.push_back({one_line(tensor.name), std::string(tensor.dtype), format_shape(tensor.shape),
                       std::to_string(tensor.bytes.size())});
  }
  print_text(format_table(facts, 2) + "\n" + format_table(tensors, 2));
  return 0;
}

// ---- the plan ----

Json tensor_json(const WeightSpec& weight, const TensorPlan& tensor) {
  Json slices = Json::array();
  for (size_t r = 0; r < tensor.slices.size(); ++r) {
    const Slice& slice = tensor.slices[r];
    slices.push_back({{"rank", r},
                      {"begin", slice.begin},
                      {"end", slice.end},
                      {"bytes", slice.bytes},
                      {"shared_bytes", tensor.shared_bytes[r]}});
  }
  Json replicated = Json::array();
  for (const SharedRange& range : tensor.shared) {
    replicated.push_back({{"begin", range.begin}, {"end", range.end}, {"ranks", range.ranks}});
  }
  return {{"name", weight.name},          {"strategy", name_of(tensor.strategy)},
          {"comm", name_of(tensor.comm)}, {"axis", tensor.by_columns ? "cols" : "rows"},
          {"slices", std::move(slices)},  {"replicated", std::move(replicated)}};
}

Json plan_json(const ModelSpec& spec, const ShardPlan& plan, DType kv) {
  Json tensors = Json::array();
  for (const TensorPlan& tensor : plan.tensors) {
    tensors.push_back(tensor_json(spec.weights[static_cast<size_t>(tensor.weight)], tensor));
  }
  Json sites = Json::array();
  for (const SitePlan& site : plan.sites) {
    sites.push_back({{"layer", site.layer},
                     {"name", site.name},
                     {"pattern", name_of(site.pattern)},
                     {"bytes_per_token", site.bytes_per_token}});
  }
  Json ranks = Json::array();
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    ranks.push_back({{"rank", r},
                     {"weight_bytes", plan.ranks[r].weight_bytes},
                     {"replicated_bytes", plan.ranks[r].replicated_bytes},
                     {"kv_bytes_per_token", plan.ranks[r].kv_values_per_token * info(kv).block_bytes}});
  }
  return {{"tp_size", plan.tp_size()},
          {"tensors", std::move(tensors)},
          {"sites", std::move(sites)},
          {"ranks", std::move(ranks)}};
}

std::string plan_tables(const ModelSpec& spec, const ShardPlan& plan, DType kv) {
  Rows ranks{{"rank", "weight bytes", "replicated bytes", "KV bytes/token"}};
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPlan& rank = plan.ranks[r];
    ranks.push_back({std::to_string(r), std::to_string(rank.weight_bytes), std::to_string(rank.replicated_bytes),
                     std::to_string(rank.kv_values_per_token * info(kv).block_bytes)});
  }
  Rows tensors{{"tensor", "strategy", "then", "axis", "shared bytes"}};
  for (int r = 0; r < plan.tp_size(); ++r) tensors.front().push_back(fmt::format("rank {}", r));
  for (const TensorPlan& tensor : plan.tensors) {
    const WeightSpec& weight = spec.weights[static_cast<size_t>(tensor.weight)];
    tensors.push_back(
        {weight.name, std::string(name_of(tensor.strategy)), std::string(name_of(tensor.comm)),
         tensor.by_columns ? "cols" : "rows",
         std::to_string(std::accumulate(tensor.shared_bytes.begin(), tensor.shared_bytes.end(), int64_t{0}))});
    for (const Slice& slice : tensor.slices) tensors.back().push_back(fmt::format("{}..{}", slice.begin, slice.end));
  }
  Rows sites{{"site", "pattern", "layer", "bytes/token"}};
  for (const SitePlan& site : plan.sites) {
    sites.push_back({site.name, std::string(name_of(site.pattern)), site.layer < 0 ? "-" : std::to_string(site.layer),
                     std::to_string(site.bytes_per_token)});
  }
  return format_table(ranks, 0) + "\n" + format_table(tensors, 4) +
         (plan.sites.empty() ? "" : "\n" + format_table(sites, 2));
}

// Flags that say how a model is divided and run, and nothing about the checkpoint.
constexpr std::array kPlanFlags{"--tp-embedding-mode", "--tp-lm-head-mode", "--tp-reduce", "--activations",
                                "--kv-dtype"};

int inspect(const Flags& flags, const CLI::App& app) {
  const bool plan_wanted = flags.tp_size_given || !flags.tp_split.empty();
  for (const char* flag : kPlanFlags) {
    if (!plan_wanted && app.count(flag) > 0) {
      fail(ErrorKind::Usage, "{} is about the plan; give --tp-size or --tp-split too, or leave it out", flag);
    }
  }
  const auto checkpoint = open_checkpoint(flags.model);
  const ModelSpec spec = read_model(*checkpoint);
  if (!plan_wanted) return inspect_checkpoint(flags, *checkpoint, spec);
  const ShardPlan plan = make_plan(spec, plan_options(flags, spec));
  if (flags.json) {
    print_json(plan_json(spec, plan, flags.kv()));
  } else {
    print_text(plan_tables(spec, plan, flags.kv()));
  }
  return 0;
}

}  // namespace

CommandBody declare_inspect(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  add_model_flags(app, *flags);
  add_json_flag(app, *flags);
  add_size_flags(app, *flags);
  add_mode_flags(app, *flags);
  add_number_flags(app, *flags);
  app.footer(
      "Without --tp-size and --tp-split: the checkpoint. With either: the plan, that is, for every weight its "
      "strategy,\n"
      "what each rank holds of it (elements begin..end of its rows or columns) and where the ranks communicate.\n"
      "replicated lists the elements that several ranks hold; the flags of modes and numbers are about the plan "
      "alone.\n"
      "Nothing is loaded.");
  return [flags, &app] { return inspect(*flags, app); };
}

}  // namespace lockstep
