// A value of a JSON file with its path, so that whatever is wrong with it can be named.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lockstep {

// Refers to the value and the file's name. Throws Error(Malformed) for a value of the wrong kind, naming the file, the
// path and what was found.
class JsonField {
 public:
  JsonField(const std::string& file, std::string path, const nlohmann::json& value)
      : file_(file), path_(std::move(path)), value_(value) {}

  const nlohmann::json& value() const { return value_; }
  std::string where() const { return file_ + ": " + path_; }

  // Members of an object. Null is as absent.
  bool has(std::string_view key) const;
  JsonField at(std::string_view key) const;
  std::string string(std::string_view key) const { return at(key).string(); }
  std::string string_or(std::string_view key, std::string_view otherwise) const;
  bool boolean(std::string_view key) const { return at(key).boolean(); }
  bool boolean_or(std::string_view key, bool otherwise) const { return has(key) ? boolean(key) : otherwise; }
  // Refuses an object with another member: it would mean something.
  void allow_only(std::initializer_list<std::string_view> keys) const;
  std::string type() const { return string("type"); }

  std::vector<JsonField> items() const;  // of an array
  std::string string() const;
  bool boolean() const;
  int64_t integer(int64_t min, int64_t max) const;

  // Error(Unsupported): the value, of these that are known.
  [[noreturn]] void unsupported(std::string_view known) const;
  template <class... Args>
  [[noreturn]] void malformed(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::Malformed, "{} {}", where(), fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string found() const;  // the value for messages

  const std::string& file_;
  std::string path_;
  const nlohmann::json& value_;
};

}  // namespace lockstep
