// lockstep generate: a prompt goes in, text streams out; at the end, what it cost.
#include <spdlog/spdlog.h>

#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "cli/chat_setup.h"
#include "cli/command.h"
#include "cli/conversation.h"
#include "cli/engine_setup.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/sampling_flags.h"
#include "cli/sha256.h"
#include "cli/token_text.h"
#include "cli/trace_file.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
double rate(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

struct GenerateFlags : Flags {
  int64_t max_tokens = 128;
  bool ignore_eos = false;
  bool as_chat = false;
  std::optional<std::string> system;
  ChatFlags chat;
  SamplingOptions sampling;
  std::vector<std::string> stops;
};

struct Figures {
  int64_t prompt_tokens = 0;
  double load_s = 0, ttft_s = 0, prefill_tok_s = 0, decode_tok_s = 0, weight_gb_s = 0;
  std::string logits_sha256;
  std::vector<RankReport> ranks;
};

Figures figures_of(const Completion& completion, std::vector<RankReport> ranks) {
  Figures figures;
  figures.ttft_s = completion.ttft_s;
  double weight_bytes = 0;
  for (const RankReport& rank : ranks) weight_bytes += static_cast<double>(rank.weight_bytes_per_token);
  figures.decode_tok_s = rate(static_cast<double>(decoded_tokens(completion)), completion.decode_s);
  figures.weight_gb_s = figures.decode_tok_s * weight_bytes * 1e-9;
  figures.ranks = std::move(ranks);
  return figures;
}

void print_figures(const Figures& figures) {
  print_note(
      fmt::format("load {:.2f} s, first token {:.3f} s, prefill {:.1f} tok/s, decode {:.1f} tok/s, weights {:.2f} "
                  "GB/s\nlogits sha256 {}\n",
                  figures.load_s, figures.ttft_s, figures.prefill_tok_s, figures.decode_tok_s, figures.weight_gb_s,
                  figures.logits_sha256));
  print_note(format_ranks(figures.ranks));
}

Json to_json(std::span<const PickedToken> picked) {
  Json list = Json::array();
  for (const PickedToken& token : picked) {
    Json top = Json::array();
    for (const TokenLogprob& other : token.top) top.push_back({{"token", other.token}, {"logprob", other.logprob}});
    list.push_back({{"token", token.token}, {"logprob", token.logprob}, {"top", std::move(top)}});
  }
  return list;
}

Json to_json(const std::string& text, bool stopped, const Completion& completion, const Figures& figures) {
  Json ranks = Json::array();
  for (const RankReport& rank : figures.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"weight_bytes", rank.weight_bytes},
                     {"replicated_bytes", rank.replicated_bytes},
                     {"read_bytes", rank.read_bytes},
                     {"kv_bytes", rank.kv_bytes},
                     {"compute_s", rank.compute_s},
                     {"comm_s", rank.comm_s},
                     {"wait_s", rank.wait_s}});
  }
  return {{"text", text},
          {"tokens", completion.tokens},
          {"prompt_tokens", figures.prompt_tokens},
          {"finish_reason", stopped ? "stop" : "length"},
          {"load_s", figures.load_s},
          {"ttft_s", figures.ttft_s},
          {"prefill_tok_s", figures.prefill_tok_s},
          {"decode_tok_s", figures.decode_tok_s},
          {"weight_gb_s", figures.weight_gb_s},
          {"logits_sha256", figures.logits_sha256},
          {"ranks", std::move(ranks)}};
}

void check_chat(const GenerateFlags& flags) {
  const auto needs_chat = [&](bool given, std::string_view flag) {
    if (given && !flags.as_chat) fail(ErrorKind::Usage, "{} is about conversations; give --chat as well", flag);
  };
  needs_chat(flags.system.has_value(), "--system");
  needs_chat(flags.chat.chat_template.has_value(), "--chat-template");
  needs_chat(flags.chat.has_variables(), "--chat-template-kwargs");
  if (!flags.as_chat) return;
  if (flags.tokens) fail(ErrorKind::Usage, "--chat makes a prompt of a text; with --tokens, leave it out");
  if (flags.parse_special) {
    fail(ErrorKind::Usage,
         "--parse-special is not for --chat: what a message says is text, special tokens come from the "
         "chat template");
  }
}

std::vector<TokenId> chat_prompt(const std::string& text, const Model& model, const GenerateFlags& flags) {
  Conversation conversation;
  if (flags.system) conversation.set_system(*flags.system);
  conversation.add_user(text);
  std::vector<TokenId> tokens =
      ChatSetup(model, flags.chat).prompt(conversation.messages(), most_positions(flags, model.spec)).tokens;
  if (tokens.empty()) fail(ErrorKind::Usage, "the chat template makes an empty prompt of this message");
  return tokens;
}

int generate(const GenerateFlags& flags) {
  check(flags.sampling);
  if (flags.sampling.logprobs && !flags.json) {
    fail(ErrorKind::Usage, "--logprobs needs --json, the only place where they are reported");
  }
  check_environment();
  check_chat(flags);
  const Prompt prompt = read_prompt(flags);
  const Clock::time_point begin = Clock::now();
  const Model model = open_model(flags.model);
  check(flags.sampling, model.spec.vocab);
  Request request;
  request.tokens = flags.as_chat ? chat_prompt(*prompt.text, model, flags) : encode_prompt(prompt, model, flags);
  const auto prompt_tokens = static_cast<int64_t>(request.tokens.size());
  const int64_t context = context_for(flags, model.spec, prompt_tokens, flags.max_tokens);
  request.max_tokens = flags.max_tokens;
  request.sampling = flags.sampling;
  if (model.tokenizer != nullptr && !flags.ignore_eos) {
    const auto stops = model.tokenizer->stop_tokens();
    request.stop_tokens.assign(stops.begin(), stops.end());
  }
  if (model.tokenizer == nullptr && !flags.stops.empty()) {
    fail(ErrorKind::Usage, "--stop needs text, and there are only ids: {}", model.no_tokenizer);
  }
  TokenText text(model.tokenizer.get(), flags.stops);
  Sha256 hash;
  if (flags.json || !flags.quiet) {
    request.logits_from = prompt_tokens - 1;
    request.on_logits = [&hash](int64_t, std::span<const float> row) { hash.add(row); };
  }

  EngineOptions options = engine_options(flags, model.spec, context);
  TraceFile trace(flags.trace, model.checkpoint->files());
  options.trace = trace.trace();
  // After what the callbacks write to: destroyed first, also when something throws.
  auto engine = load_engine(model, options, !flags.quiet);
  const double load_s = seconds_since(begin);
  if (model.tokenizer == nullptr) {
    spdlog::warn("{}; the output is token ids instead of text, and none ends it before --max-tokens",
                 one_line(model.no_tokenizer));
  }

  std::string written;
  const auto write = [&written, &flags](std::string_view piece) {
    written += piece;
    if (!flags.json && !piece.empty()) print_text(piece);
  };
  Completion completion;
  try {
    completion = run_request(*engine, std::move(request), text, write);
  } catch (...) {
    // What was generated is the user's all the same; the error comes on a line of its own.
    if (!flags.json && !written.empty()) print_text("\n");
    throw;
  }

  Figures figures = figures_of(completion, engine->reports());
  engine.reset();
  figures.prompt_tokens = prompt_tokens;
  figures.load_s = load_s;
  figures.prefill_tok_s = rate(static_cast<double>(prompt_tokens), completion.prefill_s);
  figures.logits_sha256 = hash.finish();
  if (flags.json) {
    const bool stopped = completion.reason == FinishReason::Stop || text.stopped();
    Json report = to_json(model.tokenizer != nullptr ? written : "", stopped, completion, figures);
    if (flags.sampling.logprobs) report["logprobs"] = to_json(completion.logprobs);
    print_json(report);
  } else {
    print_text("\n");
  }
  if (!flags.quiet) print_figures(figures);
  trace.close();
  return 0;
}

}  // namespace

CommandBody declare_generate(CLI::App& app) {
  const auto flags = std::make_shared<GenerateFlags>();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  add_model_flags(app, *flags);
  add_json_flag(app, *flags);
  add_prompt_flags(app, *flags);
  add_number<int64_t>(app, "-n,--max-tokens", flags->max_tokens, {0, kMost}, "most tokens to generate");
  add_sampling_flags(app, flags->sampling);
  add_number<uint64_t>(
      app, "--seed", flags->sampling.seed, {0, std::numeric_limits<uint64_t>::max()},
      "with --temp above 0: seed of the random numbers; one of them is a function of seed and position alone");
  add_number<int64_t>(app, "--logprobs", flags->sampling.logprobs, {0, 20},
                      "with --json: the log-probability of each token, and of the N likeliest in its place, "
                      "before bias, penalties and temperature; default: off");
  const auto read_stop = [&stops = flags->stops](const std::string& text) {
    if (text.empty()) fail(ErrorKind::Usage, "--stop is ''; it must have at least one character");
    stops.push_back(text);
  };
  add_repeatable(app, "--stop", "TEXT", read_stop,
                 "end before this text, as soon as the output holds it; may be repeated");
  app.add_flag("--chat", flags->as_chat, "the text is a message, and the model's chat template makes a prompt of it");
  app.add_option("--system", flags->system, "with --chat: the system message")->type_name("TEXT");
  add_chat_flags(app, flags->chat);
  app.add_flag("--ignore-eos", flags->ignore_eos, "generate on past tokens that end a text");
  add_size_flags(app, *flags);
  add_mode_flags(app, *flags);
  add_step_flags(app, *flags);
  add_context_flag(app, *flags);
  add_number_flags(app, *flags);
  add_group_flags(app, *flags);
  add_trace_flag(app, *flags);
  app.footer(
      "The text goes to standard output as it is generated (for a model without a tokenizer: ids); figures go to "
      "standard\n"
      "error at the end. logits_sha256 covers the float32 bytes of the logits that tokens were drawn from: those of "
      "the\n"
      "last prompt position and of every position after it, in order. weight_gb_s: bytes of weights that all ranks "
      "read\n"
      "for one token, times decoded tokens, over the seconds of decoding.");
  return [flags] { return generate(*flags); };
}

}  // namespace lockstep
