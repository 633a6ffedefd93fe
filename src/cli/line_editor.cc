// libedit, taught a few keys.
#include "cli/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace lockstep {
namespace {

constexpr int kRemembered = 1000;                // messages
constexpr size_t kMostBytes = size_t{64} << 20;  // of a message from a pipe, far beyond every context

// Terminals put these around what is pasted once they are asked to.
constexpr const char* kAskForPaste = "\x1b[?2004h";
constexpr const char* kAskForNoPaste = "\x1b[?2004l";
constexpr const char* kPasteBegins = "\x1b[200~";
constexpr std::wstring_view kPasteEnds = L"\x1b[201~";

void write_to_terminal(const char* sequence) {
  std::fputs(sequence, stdout);
  std::fflush(stdout);
}

// Characters are as wide as they are: libedit asks the locale.
void use_utf8() {
  const char* const set = std::setlocale(LC_CTYPE, "");
  if (set == nullptr || std::string_view(set) == "C" || std::string_view(set) == "POSIX") {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
}

}  // namespace

class LineEditor::Terminal {
 public:
  Terminal(std::string prompt, std::filesystem::path history)
      : prompt_(std::move(prompt)),
        file_(std::move(history)),
        edit_(el_init("lockstep", stdin, stdout, stderr)),
        history_(history_init()) {
    HistEvent event;
    ::history(history_.get(), &event, H_SETSIZE, kRemembered);
    ::history(history_.get(), &event, H_SETUNIQUE, 1);
    if (!file_.empty()) {
      const int found = ::history(history_.get(), &event, H_LOAD, file_.c_str());
      std::error_code none_yet;
      if (found > 2 * kRemembered) ::history(history_.get(), &event, H_SAVE, file_.c_str());
      // A file that libedit did not write is left alone.
      if (found < 0 && std::filesystem::file_size(file_, none_yet) > 0 && !none_yet) file_.clear();
    }
    EditLine* const edit = edit_.get();
    el_set(edit, EL_CLIENTDATA, this);
    el_set(edit, EL_PROMPT, &show_prompt);
    el_set(edit, EL_HIST, ::history, history_.get());
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_ADDFN, "end-message", "end the message, or its line", &end_message);
    el_set(edit, EL_ADDFN, "break-line", "begin another line", &break_line);
    el_set(edit, EL_ADDFN, "give-up", "give the message up", &give_up);
    el_set(edit, EL_ADDFN, "paste", "take what is pasted as it is", &paste);
    constexpr auto kKeys = std::to_array<std::pair<const char*, const char*>>({
        {"^M", "end-message"},
        {"^J", "end-message"},
        {"\x1b\r", "break-line"},
        {"\x1b\n", "break-line"},
        {"^C", "give-up"},
        {kPasteBegins, "paste"},
        {"^R", "em-inc-search-prev"},
        {"^I", "ed-insert"},
        {"\x1b[1;5C", "em-next-word"},
        {"\x1b[1;5D", "ed-prev-word"},
        {"\x1b[3~", "ed-delete-next-char"},
        {"\x1b[H", "ed-move-to-beg"},
        {"\x1b[F", "ed-move-to-end"},
    });
    for (const auto& [key, function] : kKeys) el_set(edit, EL_BIND, key, function, nullptr);
    el_set(edit, EL_SETTY, "-d", "-isig", nullptr);  // Ctrl-C comes as a key
  }

  // What is pasted while an answer is written is one message too, hence the marks stay until the end.
  ~Terminal() { write_to_terminal(kAskForNoPaste); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::optional<Message> read() {
    given_up_ = false;
    int count = 0;
    write_to_terminal(kAskForPaste);
    const char* const line = el_gets(edit_.get(), &count);
    if (line == nullptr || count <= 0) return std::nullopt;
    Message message{std::string(line, static_cast<size_t>(count)), given_up_};
    if (message.text.ends_with('\n')) message.text.pop_back();
    remember(message.text);
    return message;
  }

 private:
  struct Closer {
    void operator()(EditLine* edit) const { el_end(edit); }
    void operator()(History* history) const { history_end(history); }
  };

  static Terminal& of(EditLine* edit) {
    Terminal* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return *self;
  }
  static char* show_prompt(EditLine* edit) { return of(edit).prompt_.data(); }

  // Moves to the end, for what follows belongs there.
  static void go_to_end(EditLine* edit) {
    const LineInfo* const line = el_line(edit);
    el_cursor(edit, static_cast<int>(line->lastchar - line->cursor));
  }
  static unsigned char finish(EditLine* edit) {
    go_to_end(edit);
    el_insertstr(edit, "\n");
    write_to_terminal("\n");
    return CC_NEWLINE;
  }
  static unsigned char end_message(EditLine* edit, int) {
    const LineInfo* const line = el_line(edit);
    if (line->cursor > line->buffer && line->cursor[-1] == '\\') {
      el_deletestr(edit, 1);
      return break_line(edit, 0);
    }
    return finish(edit);
  }
  static unsigned char break_line(EditLine* edit, int) { return el_insertstr(edit, "\n") == 0 ? CC_REFRESH : CC_ERROR; }
  static unsigned char give_up(EditLine* edit, int) {
    of(edit).given_up_ = true;
    return finish(edit);
  }
  static unsigned char paste(EditLine* edit, int) {
    std::wstring text;
    for (wchar_t c = 0; !text.ends_with(kPasteEnds) && el_wgetc(edit, &c) == 1;) {
      text += c == L'\r' ? L'\n' : c == L'\0' ? L'\uFFFD' : c;
    }
    if (text.ends_with(kPasteEnds)) text.resize(text.size() - kPasteEnds.size());
    return el_winsertstr(edit, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  void remember(const std::string& text) {
    if (text.empty()) return;
    HistEvent event;
    const bool is_new = ::history(history_.get(), &event, H_ENTER, text.c_str()) > 0;
    if (is_new && !file_.empty()) append_to_file(text);
  }

  // Others may have the same file: each adds what was typed at its own terminal.
  void append_to_file(const std::string& text) const {
    std::error_code ignored;
    std::filesystem::create_directories(file_.parent_path(), ignored);
    const int made = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (made < 0) return;
    const std::unique_ptr<FILE, int (*)(FILE*)> file(::fdopen(made, "a"), std::fclose);
    if (file == nullptr) {
      ::close(made);
      return;
    }
    std::fseek(file.get(), 0, SEEK_END);  // where libedit sees whether the file has its first line
    const std::unique_ptr<History, Closer> one(history_init());
    HistEvent event;
    ::history(one.get(), &event, H_SETSIZE, 1);
    ::history(one.get(), &event, H_ENTER, text.c_str());
    ::history(one.get(), &event, H_SAVE_FP, file.get());
  }

  std::string prompt_;
  std::filesystem::path file_;
  std::unique_ptr<EditLine, Closer> edit_;
  std::unique_ptr<History, Closer> history_;
  bool given_up_ = false;
};

LineEditor::LineEditor(std::string prompt, std::filesystem::path history) {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) return;
  use_utf8();
  terminal_ = std::make_unique<Terminal>(std::move(prompt), std::move(history));
}

LineEditor::~LineEditor() = default;

bool LineEditor::interactive() const {
  return terminal_ != nullptr;
}

std::optional<LineEditor::Message> LineEditor::read() {
  if (terminal_ != nullptr) return terminal_->read();
  Message message;
  for (int c = std::getc(stdin); c != EOF; c = std::getc(stdin)) {
    if (c == '\n') {
      if (message.text.ends_with('\r')) message.text.pop_back();
      return message;
    }
    message.text += static_cast<char>(c);
    if (message.text.size() > kMostBytes) {
      fail(ErrorKind::DoesNotFit, "standard input has a line of more than {} bytes, the most a message may have",
           kMostBytes);
    }
  }
  if (std::ferror(stdin) != 0) {
    fail(ErrorKind::Io, "standard input cannot be read: {}", std::generic_category().message(errno));
  }
  return message.text.empty() ? std::nullopt : std::optional(std::move(message));
}

}  // namespace lockstep
