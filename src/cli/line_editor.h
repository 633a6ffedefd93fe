// Reading messages from a terminal, with editing, history and several lines; or from a pipe, line by line.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

// One at a time in a process: it has the terminal to itself. Enter ends a message; Alt-Enter, a backslash before Enter,
// and a pasted line break begin another line of it. Ctrl-C gives the message up.
class LineEditor {
 public:
  // What is typed is remembered in `history`, which nobody else may read; empty: nowhere. A file that cannot be read or
  // written costs the memory of other sessions and nothing else.
  LineEditor(std::string prompt, std::filesystem::path history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Whether standard input and output are a terminal.
  bool interactive() const;

  struct Message {
    std::string text;       // without the line break that ended it
    bool given_up = false;  // by Ctrl-C
  };
  // Nothing at the end of the input.
  std::optional<Message> read();

 private:
  class Terminal;
  std::unique_ptr<Terminal> terminal_;
};

}  // namespace lockstep
