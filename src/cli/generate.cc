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
};

// Tokens on their way from rank 0's thread to the printing one. A slow terminal or pipe must not hold up the ranks: the
// lock is never held while anything is printed.
class TokenTape {
 public:
  void push(TokenId token) {
    const std::lock_guard lock(mutex_);
    tokens_.push_back(token);
  }
  // Those pushed since the last call.
  std::vector<TokenId> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(tokens_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<TokenId> tokens_;
};

// Turns tokens into text as they come, whole characters only. Without a tokenizer, ids stand for the text on the
// terminal.
class TextWriter {
 public:
  TextWriter(const Tokenizer* tokenizer, bool print) : tokenizer_(tokenizer), print_(print) {
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
  }

  void write(std::span<const TokenId> tokens) {
    std::string piece;
    for (const TokenId token : tokens) {
      // A vocabulary may be padded with ids that no text belongs to.
      if (decoder_ && token < tokenizer_->vocab_size()) piece += decoder_->push(token);
      if (!decoder_) piece += fmt::format("{} ", token);
    }
    put(piece);
  }

  void finish() { put((decoder_ ? decoder_->finish() : "") + "\n"); }
  std::string text() const { return decoder_ ? text_.substr(0, text_.size() - 1) : ""; }

 private:
  void put(const std::string& piece) {
    text_ += piece;
    if (print_ && !piece.empty()) print_text(piece);
  }

  const Tokenizer* tokenizer_;
  const bool print_;
  std::optional<StreamDecoder> decoder_;
  std::string text_;
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

Json to_json(const std::string& text, const Completion& completion, const Figures& figures) {
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
          {"finish_reason", completion.reason == FinishReason::Stop ? "stop" : "length"},
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
  check_environment();
  const Prompt prompt = read_prompt(flags);
  const Clock::time_point begin = Clock::now();
  const Model model = open_model(flags.model);
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
  TokenTape tape;
  request.on_token = [&tape](TokenId token) {
    tape.push(token);
    return true;
  };
  Sha256 hash;
  if (flags.json || !flags.quiet) {
    request.logits_from = prompt_tokens - 1;
    request.on_logits = [&hash](int64_t, std::span<const float> row) { hash.add(row); };
  }

  // After what the callbacks write to: destroyed first, also when something throws.
  const auto engine = load_engine(model, engine_options(flags, model.spec, context), !flags.quiet);
  const double load_s = seconds_since(begin);
  if (model.tokenizer == nullptr) {
    spdlog::warn("{}; the output is token ids instead of text, and none ends it before --max-tokens",
                 one_line(model.no_tokenizer));
  }

  TextWriter writer(model.tokenizer.get(), !flags.json);
  auto done = engine->submit(std::move(request));
  while (done.wait_for(kPrintInterval) != std::future_status::ready) writer.write(tape.take());
  const Completion completion = done.get();
  writer.write(tape.take());
  writer.finish();

  Figures figures = figures_of(completion, engine->reports());
  figures.prompt_tokens = prompt_tokens;
  figures.load_s = load_s;
  figures.prefill_tok_s = rate(static_cast<double>(prompt_tokens), completion.prefill_s);
  figures.logits_sha256 = hash.finish();
  if (flags.json) print_json(to_json(writer.text(), completion, figures));
  if (!flags.quiet) print_figures(figures);
  return 0;
}

}  // namespace

CommandBody declare_generate(CLI::App& app) {
  const auto flags = std::make_shared<GenerateFlags>();
  SamplingOptions& sampling = flags->sampling;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  add_model_flags(app, *flags);
  add_prompt_flags(app, *flags);
  add_number<int64_t>(app, "-n,--max-tokens", flags->max_tokens, {0, kMost}, "most tokens to generate");
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
  app.add_flag("--ignore-eos", flags->ignore_eos, "generate on past tokens that end a text");
  add_size_flags(app, *flags);
  add_mode_flags(app, *flags);
  add_step_flags(app, *flags);
  add_context_flag(app, *flags);
  add_number_flags(app, *flags);
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
