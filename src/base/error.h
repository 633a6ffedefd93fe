// The one exception type of lockstep. Loaders and validators throw it; subcommands print it in one line and
// choose their exit status by its kind. A message names the thing (file, tensor, flag, rank), the value found, the
// values allowed and the way out.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep {

enum class ErrorKind {
  Usage,        // a flag or argument cannot be understood: exit status 2
  NotFound,     // a file, tensor or key that must exist does not
  Malformed,    // a file breaks the rules of its format
  Unsupported,  // well-formed, but nothing here can run it
  DoesNotFit,   // refused before allocation: too large, or no legal division
  Io,           // the operating system refused a read or a mapping
  RankFailed,   // a rank threw, died or stalled; the group has ended
  Cancelled,    // the caller asked for the end
  Internal,     // a bug of lockstep
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Throws Error with a message made by fmt.
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep
