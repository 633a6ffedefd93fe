// lockstep generate: a prompt goes in, text streams out; at the end, what it cost.
#include <spdlog/spdlog.h>

#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "cli/command.h"
#include "cli/engine_setup.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/sha256.h"
#include "cli/trace_file.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPrintInterval{5};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
double rate(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

struct GenerateFlags : Flags {
  int64_t max_tokens = 128;
  bool ignore_eos = false;
  SamplingOptions sampling;
  std::vector<std::string> stops;
};

// Text on its way from rank 0's thread to the printing one. A slow terminal or pipe must not hold up the ranks: the
// lock is never held while anything is printed.
class TextTape {
 public:
  void push(std::string_view text) {
    const std::lock_guard lock(mutex_);
    text_ += text;
  }
  // What was pushed since the last call.
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, {});
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

// Turns tokens into text as they come: whole characters only, up to a stop string. Without a tokenizer, ids stand for
// the text.
class TokenText {
 public:
  TokenText(const Tokenizer* tokenizer, const std::vector<std::string>& stops) : tokenizer_(tokenizer), stops_(stops) {
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
  }

  std::string push(TokenId token) {
    if (!decoder_) return fmt::format("{} ", token);
    // A vocabulary may be padded with ids that no text belongs to.
    return token < tokenizer_->vocab_size() ? stops_.push(decoder_->push(token)) : "";
  }
  std::string finish() {
    if (!decoder_) return {};
    std::string text = stops_.push(decoder_->finish());
    return text + stops_.finish();
  }
  bool stopped() const { return stops_.stopped(); }

 private:
  const Tokenizer* tokenizer_;
  std::optional<StreamDecoder> decoder_;
  StopMatcher stops_;
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
  // The first token comes out of the prefill; the token that stops a generation was decoded as well.
  const auto drawn = static_cast<double>(completion.tokens.size()) + (completion.reason == FinishReason::Stop ? 1 : 0);
  double weight_bytes = 0;
  for (const RankReport& rank : ranks) weight_bytes += static_cast<double>(rank.weight_bytes_per_token);
  figures.decode_tok_s = rate(std::max(0.0, drawn - 1), completion.decode_s);
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
  std::vector<std::vector<std::string>> rows{
      {"rank", "weights", "replicated", "read", "kv cache", "compute s", "comm s", "wait s"}};
  for (const RankReport& rank : figures.ranks) {
    rows.push_back({std::to_string(rank.rank), human_bytes(rank.weight_bytes), human_bytes(rank.replicated_bytes),
                    human_bytes(rank.read_bytes), human_bytes(rank.kv_bytes), fmt::format("{:.3f}", rank.compute_s),
                    fmt::format("{:.3f}", rank.comm_s), fmt::format("{:.3f}", rank.wait_s)});
  }
  print_note(format_table(rows, 0));
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

int generate(const GenerateFlags& flags) {
  check(flags.sampling);
  if (flags.sampling.logprobs && !flags.json) {
    fail(ErrorKind::Usage, "--logprobs needs --json, the only place where they are reported");
  }
  check_environment();
  const Prompt prompt = read_prompt(flags);
  const Clock::time_point begin = Clock::now();
  const Model model = open_model(flags.model);
  check(flags.sampling, model.spec.vocab);
  Request request;
  request.tokens = encode_prompt(prompt, model, flags);
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
  TextTape tape;
  request.on_token = [&text, &tape](const PickedToken& picked) {
    tape.push(text.push(picked.token));
    return !text.stopped();
  };
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
  const auto write = [&written, &flags](const std::string& piece) {
    written += piece;
    if (!flags.json && !piece.empty()) print_text(piece);
  };
  auto done = engine->submit(std::move(request));
  while (done.wait_for(kPrintInterval) != std::future_status::ready) write(tape.take());
  Completion completion;
  try {
    completion = done.get();
  } catch (...) {
    // What was generated is the user's all the same; the error comes on a line of its own.
    write(tape.take() + text.finish());
    if (!flags.json && !written.empty()) print_text("\n");
    throw;
  }
  write(tape.take() + text.finish());

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

LogitBias parse_bias(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() != 2) {
    fail(ErrorKind::Usage, "--logit-bias is {}; it must be an id and a value, as in 42:-1.5 or 42:-inf",
         in_quotes(text));
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto token = parse_number<int64_t>("--logit-bias: the id", parts[0], {0, std::numeric_limits<int32_t>::max()});
  return {static_cast<int32_t>(token),
          parse_number<double>("--logit-bias: the value", parts[1], {-kInfinity, kInfinity})};
}

// A flag that may be given several times, each time with one value of any characters.
template <class Read>
void add_repeatable(CLI::App& app, const std::string& name, const std::string& type, Read read,
                    const std::string& help) {
  const auto read_all = [read](const CLI::results_t& values) {
    for (const std::string& value : values) read(value);
    return true;
  };
  app.add_option(name, read_all, help)->type_name(type)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_sampling_flags(CLI::App& app, SamplingOptions& sampling) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  add_repeatable(
      app, "--logit-bias", "ID:V",
      [&sampling](const std::string& text) { sampling.logit_bias.push_back(parse_bias(text)); },
      "add V to the logit of token ID; -inf rules it out; may be repeated with other ids");
  add_number<double>(app, "--repeat-penalty", sampling.repeat_penalty, {0.001, 1000},
                     "divide the logit of every token in prompt or output by N if positive, else multiply");
  add_number<double>(app, "--presence-penalty", sampling.presence_penalty, {-2, 2},
                     "subtract N from the logit of every token in the output");
  add_number<double>(app, "--frequency-penalty", sampling.frequency_penalty, {-2, 2},
                     "subtract N from a token's logit for each time it is in the output");
  add_number<double>(app, "--temp", sampling.temperature, {0, 1e6}, "temperature; 0: always the likeliest token");
  add_number<int64_t>(app, "--top-k", sampling.top_k, {0, kMost},
                      "with --temp above 0: draw from the N likeliest tokens; 0: from all");
  add_number<double>(app, "--top-p", sampling.top_p, {0, 1},
                     "with --temp above 0: draw from the fewest tokens whose probabilities reach N");
  add_number<double>(app, "--min-p", sampling.min_p, {0, 1},
                     "with --temp above 0: drop tokens below N times the likeliest one's probability");
  add_number<uint64_t>(
      app, "--seed", sampling.seed, {0, std::numeric_limits<uint64_t>::max()},
      "with --temp above 0: seed of the random numbers; one of them is a function of seed and position alone");
  add_number<int64_t>(app, "--logprobs", sampling.logprobs, {0, 20},
                      "with --json: the log-probability of each token, and of the N likeliest in its place, "
                      "before bias, penalties and temperature; default: off");
}

}  // namespace

CommandBody declare_generate(CLI::App& app) {
  const auto flags = std::make_shared<GenerateFlags>();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  add_model_flags(app, *flags);
  add_prompt_flags(app, *flags);
  add_number<int64_t>(app, "-n,--max-tokens", flags->max_tokens, {0, kMost}, "most tokens to generate");
  add_sampling_flags(app, flags->sampling);
  const auto read_stop = [&stops = flags->stops](const std::string& text) {
    if (text.empty()) fail(ErrorKind::Usage, "--stop is ''; it must have at least one character");
    stops.push_back(text);
  };
  add_repeatable(app, "--stop", "TEXT", read_stop,
                 "end before this text, as soon as the output holds it; may be repeated");
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
