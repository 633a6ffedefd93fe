// What every part of the template interpreter throws: a kind and a sentence. The door (chat_template.cc) adds the
// template's name and the line, and throws it on as the Error that callers see.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"

namespace lockstep::jinja {

class Failure : public std::exception {
 public:
  Failure(ErrorKind kind, std::string message, int line = 0) : kind(kind), message(std::move(message)), line(line) {}
  const char* what() const noexcept override { return message.c_str(); }

  ErrorKind kind;
  std::string message;
  int line;  // 0: where the interpreter stands
};

// The template does what Python would raise an exception for.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(ErrorKind::Malformed, fmt::format(format, std::forward<Args>(args)...));
}

// The template does what Python can do and this interpreter cannot.
template <class... Args>
[[noreturn]] void unsupported(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(ErrorKind::Unsupported, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep::jinja
