// lockstep chat: a conversation at the terminal, or with a pipe that says a message a line.
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "cli/chat_setup.h"
#include "cli/command.h"
#include "cli/conversation.h"
#include "cli/engine_setup.h"
#include "cli/line_editor.h"
#include "cli/output.h"
#include "cli/reasoning.h"
#include "cli/sampling_flags.h"
#include "cli/token_text.h"

namespace lockstep {
namespace {

constexpr int64_t kUsualContext = 8192;  // positions, where neither --ctx nor the model says less

enum class Thoughts : uint8_t { Show, Fold };
constexpr auto kThoughts = std::to_array<Choice<Thoughts>>({{"show", Thoughts::Show}, {"fold", Thoughts::Fold}});

struct ChatCommandFlags : Flags {
  ChatFlags chat;
  std::optional<std::string> system;
  std::optional<int64_t> max_tokens;
  SamplingOptions sampling{.temperature = 0.7, .top_p = 0.95};
  std::optional<uint64_t> seed;
  Thoughts thoughts = Thoughts::Show;
};

constexpr std::string_view kHelp =
    "/system [TEXT|off]  show, set or remove the system message\n"
    "/retry              answer the last message again\n"
    "/clear              forget the conversation, but not the system message\n"
    "/save FILE          write the conversation as JSON\n"
    "/load FILE          go on with a conversation that was saved\n"
    "/stats              what answers cost, and where the ranks' time went\n"
    "/exit, /quit        leave; so does Ctrl-D\n"
    "Enter sends a message. Alt-Enter, or a backslash before Enter, begins another line of it. Ctrl-C stops an\n"
    "answer, which stays as far as it went. A message that begins with a slash is written with two.\n";

constexpr std::string_view kTakenBack = "stopped before an answer began; the message is taken back";

// Ctrl-C while an answer is written. It waits to be asked for instead of ending the program, on this thread and on
// those that are started while this lives.
class Interrupts {
 public:
  explicit Interrupts(bool wanted) : wanted_(wanted) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    if (wanted_) ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~Interrupts() {
    take();  // one that came too late to stop anything
    if (wanted_) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // What Ctrl-C does everywhere else.
  void end_program_if_one_came() const {
    if (!take()) return;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    ::raise(SIGINT);
  }

  // Whether one came since the last call.
  bool take() const {
    constexpr timespec kNow{};
    return wanted_ && ::sigtimedwait(&signals_, nullptr, &kNow) == SIGINT;
  }

 private:
  const bool wanted_;
  sigset_t signals_{}, before_{};
};

// What a model writes may hold sequences that a terminal would obey.
std::string fit_for_terminal(std::string_view text) {
  std::string fit;
  while (!text.empty()) {
    const size_t size = std::min(text.find_first_of("\n\t"), text.size());
    fit += one_line(text.substr(0, size));
    if (size < text.size()) fit += text[size];
    text.remove_prefix(std::min(size + 1, text.size()));
  }
  return fit;
}

// Where answers go: as they are into a pipe; onto a terminal with dimmed thoughts and figures.
class Screen {
 public:
  Screen(bool terminal, Thoughts thoughts) : terminal_(terminal), fold_(thoughts == Thoughts::Fold) {
    const char* const kind = std::getenv("TERM");
    const char* const no_color = std::getenv("NO_COLOR");
    colors_ =
        terminal && (no_color == nullptr || *no_color == '\0') && kind != nullptr && std::string_view(kind) != "dumb";
  }

  void show(const ReasoningSplitter::Piece& piece) {
    if (!piece.reasoning.empty() && (terminal_ || !fold_)) {
      if (!thinking_) print_text(colors_ ? "\x1b[2m" : "");
      if (fold_ && !thinking_) print_text("(thinking ...)");
      thinking_ = true;
      if (!fold_) write(piece.reasoning);
    }
    if (!piece.answer.empty()) {
      end_thoughts();
      write(piece.answer);
    }
  }
  void end_answer() {
    end_thoughts();
    print_text("\n");
  }
  void note(std::string_view text) const {
    print_text(colors_ ? fmt::format("\x1b[2m{}\x1b[0m\n", text) : fmt::format("{}\n", text));
  }

 private:
  void end_thoughts() {
    if (!std::exchange(thinking_, false)) return;
    print_text(colors_ ? "\x1b[0m\n\n" : "\n\n");
  }
  void write(std::string_view text) const { print_text(terminal_ ? fit_for_terminal(text) : std::string(text)); }

  const bool terminal_, fold_;
  bool colors_ = false;
  bool thinking_ = false;  // thoughts are being written
};

// The file of messages that were typed.
std::filesystem::path history_file() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  const char* const home = std::getenv("HOME");
  if (state != nullptr && *state == '/') return std::filesystem::path(state) / "lockstep" / "chat_history";
  if (home == nullptr || *home != '/') return {};
  return std::filesystem::path(home) / ".local" / "state" / "lockstep" / "chat_history";
}

class Chat {
 public:
  explicit Chat(const ChatCommandFlags& flags)
      : flags_(flags),
        editor_("> ", history_file()),
        interrupts_(editor_.interactive()),
        screen_(editor_.interactive(), flags.thoughts),
        model_(open_model(flags.model)),
        setup_(model_, flags.chat),
        context_(flags.context ? most_positions(flags, model_.spec) : std::min(model_.spec.context, kUsualContext)),
        sampling_(flags.sampling) {
    check(sampling_, model_.spec.vocab);
    const Tokenizer& tokenizer = *model_.tokenizer;
    for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
      if (tokenizer.is_special(token) && is_reasoning_mark(tokenizer.piece(token))) marks_.push_back(token);
    }
    sampling_.seed = flags.seed ? *flags.seed : std::random_device()();
    if (flags.system) conversation_.set_system(*flags.system);
    // A template that always fails does so now.
    setup_.prompt(Json::array({{{"role", "user"}, {"content", "Hello"}}}), std::numeric_limits<int64_t>::max());
    EngineOptions options = engine_options(flags, model_.spec, context_);
    options.reuse_prefixes = true;
    engine_ = load_engine(model_, std::move(options), !flags.quiet, [this] { interrupts_.end_program_if_one_came(); });
  }

  int run() {
    if (editor_.interactive() && !flags_.quiet) screen_.note("/help lists the commands");
    while (!leaving_) {
      const auto message = editor_.read();
      if (!message) break;
      if (message->given_up || message->text.find_first_not_of(" \t\r\n") == std::string::npos) continue;
      try {
        take(message->text);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::RankFailed || !editor_.interactive()) throw;
        screen_.note(one_line(error.what()));
      }
    }
    if (editor_.interactive() && !leaving_) print_text("\n");
    return 0;
  }

 private:
  // A message or a command. Of several lines, as a pasted text may have, only a command that exists is taken for one.
  void take(std::string_view text) {
    const bool escaped = text.starts_with("//");
    const std::string_view line = text.substr(escaped ? 1 : 0);
    const bool slash = line.starts_with('/');
    const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
    const std::string_view name = slash ? line.substr(1, end - 1) : "";
    const auto command = std::ranges::find(kCommands, name, &Command::name);
    const bool meant = slash && (command != kCommands.end() || text.find('\n') == std::string_view::npos);
    if (!meant || escaped) {
      Conversation next = conversation_;
      next.add_user(meant ? line : text);
      return answer(std::move(next));
    }
    if (command == kCommands.end()) {
      fail(ErrorKind::Usage, "/{} is not known; /help lists the commands, and // begins a message with a slash",
           one_line(name));
    }
    std::string argument(line.substr(std::min(line.find_first_not_of(" \t\n", end), line.size())));
    argument.resize(argument.find_last_not_of(" \t\n") + 1);
    if (!argument.empty() && !command->takes_argument) {
      fail(ErrorKind::Usage, "/{} stands alone, but {} follows; // begins a message with a slash", name,
           in_quotes(argument));
    }
    (this->*command->obey)(argument);
  }

  // As shells do.
  static std::string file_of(std::string_view command, const std::string& argument) {
    if (argument.empty()) fail(ErrorKind::Usage, "{} wants the name of a file", command);
    const char* const home = std::getenv("HOME");
    return argument.starts_with("~/") && home != nullptr ? home + argument.substr(1) : argument;
  }

  void leave(const std::string&) { leaving_ = true; }

  void help(const std::string&) { print_text(kHelp); }

  void clear(const std::string&) { conversation_.clear(); }

  void save(const std::string& file) { conversation_.save(file_of("/save", file)); }

  void load(const std::string& file) {
    conversation_.load(file_of("/load", file));
    screen_.note(fmt::format("{} messages", conversation_.messages().size()));
  }

  void system(const std::string& text) {
    if (!text.empty()) conversation_.set_system(text == "off" ? "" : text);
    const std::string now = conversation_.system();
    screen_.note(now.empty() ? "no system message" : "system: " + fit_for_terminal(now));
  }

  void retry(const std::string&) {
    Conversation next = conversation_;
    if (!next.drop_last_answer()) fail(ErrorKind::Usage, "there is no message to answer yet");
    ++sampling_.seed;
    if (sampling_.temperature == 0) screen_.note("with --temp 0 an answer is the same each time");
    answer(std::move(next));
  }

  // Answers the last message; from then on `next` is the conversation. When that fails the old one stays.
  void answer(Conversation next) {
    interrupts_.take();  // one that came too late for the answer before
    ChatEncoder::Prompt prompt = setup_.prompt(next.messages(), context_);
    if (interrupts_.take()) return screen_.note(kTakenBack);
    const auto prompt_tokens = static_cast<int64_t>(prompt.tokens.size());
    if (prompt_tokens >= context_) {
      fail(ErrorKind::DoesNotFit,
           "the conversation has {} tokens, and the context holds {}: /clear it, or begin with "
           "a larger --ctx",
           prompt_tokens, context_);
    }
    Request request;
    request.tokens = std::move(prompt.tokens);
    request.max_tokens = flags_.max_tokens.value_or(context_);
    request.sampling = sampling_;
    const auto stops = model_.tokenizer->stop_tokens();
    request.stop_tokens.assign(stops.begin(), stops.end());
    TokenText text(model_.tokenizer.get(), {}, marks_);
    ReasoningSplitter splitter(prompt.text);
    std::string answer, reasoning;
    const auto show = [&](const ReasoningSplitter::Piece& piece) {
      answer += piece.answer;
      reasoning += piece.reasoning;
      screen_.show(piece);
    };
    std::stop_source cancel;
    Completion completion;
    try {
      completion = run_request(
          *engine_, std::move(request), text,
          [&](std::string_view piece) {
            show(splitter.push(piece));
            if (interrupts_.take()) cancel.request_stop();
          },
          cancel);
    } catch (...) {
      screen_.end_answer();  // the error comes on a line of its own
      throw;
    }
    show(splitter.finish());
    screen_.end_answer();
    const bool begun = !answer.empty() || !reasoning.empty();
    if (begun || completion.reason != FinishReason::Cancelled) {
      next.add_answer(answer, reasoning);
      conversation_ = std::move(next);
    } else {
      screen_.note(kTakenBack);
    }
    count(prompt_tokens, completion);
  }

  void count(int64_t prompt_tokens, const Completion& completion) {
    const auto tokens = static_cast<int64_t>(completion.tokens.size());
    prompt_tokens_ += prompt_tokens;
    read_tokens_ += prompt_tokens - completion.reused_tokens;
    tokens_ += tokens;
    prefill_s_ += completion.prefill_s;
    decode_s_ += completion.decode_s;
    decoded_ += decoded_tokens(completion);
    ++answers_;
    used_ = std::min(prompt_tokens + tokens, context_);  // the last token that is drawn needs none
    if (!editor_.interactive() || flags_.quiet) return;
    std::string line = fmt::format("[{} tokens", tokens);
    if (const int64_t decoded = decoded_tokens(completion); decoded > 0 && completion.decode_s > 0) {
      line += fmt::format(", {:.1f} tok/s", static_cast<double>(decoded) / completion.decode_s);
    }
    if (tokens > 0) line += fmt::format(", first after {:.2f} s", completion.ttft_s);
    line += fmt::format(", {} of {} positions", used_, context_);
    if (completion.reason == FinishReason::Cancelled) line += ", stopped";
    if (completion.reason == FinishReason::Length) {
      line += tokens == flags_.max_tokens ? ", cut at its most tokens" : ", the context is full";
    }
    screen_.note(line + "]");
  }

  void stats(const std::string&) {
    const auto rate = [](int64_t tokens, double seconds) {
      return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
    };
    print_text(fmt::format(
        "{} answers, {} tokens at {:.1f} tok/s; prompts of {} tokens, {} of them read at {:.1f} tok/s; {} of {} "
        "positions; seed {}\n",
        answers_, tokens_, rate(decoded_, decode_s_), prompt_tokens_, read_tokens_, rate(read_tokens_, prefill_s_),
        used_, context_, sampling_.seed));
    print_text(format_ranks(engine_->reports()));
  }

  struct Command {
    std::string_view name;
    bool takes_argument;
    void (Chat::*obey)(const std::string& argument);
  };
  static constexpr auto kCommands = std::to_array<Command>({{"help", false, &Chat::help},
                                                            {"system", true, &Chat::system},
                                                            {"retry", false, &Chat::retry},
                                                            {"clear", false, &Chat::clear},
                                                            {"save", true, &Chat::save},
                                                            {"load", true, &Chat::load},
                                                            {"stats", false, &Chat::stats},
                                                            {"exit", false, &Chat::leave},
                                                            {"quit", false, &Chat::leave}});

  const ChatCommandFlags& flags_;
  LineEditor editor_;
  Interrupts interrupts_;  // before the engine, whose threads take over what it blocks
  Screen screen_;
  Model model_;
  ChatSetup setup_;
  Conversation conversation_;
  std::vector<TokenId> marks_;  // special tokens around thoughts
  const int64_t context_;
  SamplingOptions sampling_;
  int64_t answers_ = 0, prompt_tokens_ = 0, read_tokens_ = 0, tokens_ = 0, decoded_ = 0, used_ = 0;
  double prefill_s_ = 0, decode_s_ = 0;
  bool leaving_ = false;
  std::unique_ptr<Engine> engine_;
};

}  // namespace

CommandBody declare_chat(CLI::App& app) {
  const auto flags = std::make_shared<ChatCommandFlags>();
  add_model_flags(app, *flags);
  app.add_option("--system", flags->system, "the system message")->type_name("TEXT");
  add_chat_flags(app, flags->chat);
  add_number<int64_t>(app, "-n,--max-tokens", flags->max_tokens, {1, std::numeric_limits<int64_t>::max()},
                      "most tokens of an answer; default: what the context leaves");
  add_choice(app, "--thoughts", flags->thoughts, kThoughts, "what becomes of what a model thinks before it answers");
  add_sampling_flags(app, flags->sampling);
  add_number<uint64_t>(app, "--seed", flags->seed, {0, std::numeric_limits<uint64_t>::max()},
                       "seed of the random numbers; default: another one each time");
  add_size_flags(app, *flags);
  add_mode_flags(app, *flags);
  add_step_flags(app, *flags);
  add_number<int64_t>(
      app, "--ctx", flags->context, {1, std::numeric_limits<int64_t>::max()},
      fmt::format("positions of the conversation, at most the model's; default: {}, or the model's", kUsualContext));
  add_number_flags(app, *flags);
  add_group_flags(app, *flags);
  app.footer(
      "At a terminal, /help lists the commands. From a pipe every line is a message or a command, and standard output\n"
      "gets the answers. What is typed at a terminal is remembered in $XDG_STATE_HOME/lockstep/chat_history\n"
      "(~/.local/state).");
  return [flags] {
    check(flags->sampling);
    check_environment();
    return Chat(*flags).run();
  };
}

}  // namespace lockstep
