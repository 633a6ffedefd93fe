// The events of the JSON parser, checked and turned into values with paths.
#include "checkpoint/json_reader.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/quoted.h"
#include "base/utf8.h"

namespace lockstep {
namespace {

using nlohmann::json;

constexpr size_t kMostLevels = 32;
constexpr size_t kMostStringBytes = size_t{1} << 20;  // the parser holds one string at a time
constexpr size_t kMostElements = 65536;               // of an array
constexpr uint64_t kKeyMemory = 112;                  // a set node, its string, and what the allocator adds
constexpr uint64_t kStringMemory = 64;                // a string and what the allocator adds

// Between its quotes, escapes as they are written.
size_t longest_string(std::string_view text) {
  size_t longest = 0;
  for (size_t at = text.find('"'); at != text.npos; at = text.find('"', at)) {
    const size_t begin = ++at;
    while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    longest = std::max(longest, std::min(at, text.size()) - begin);
    ++at;
  }
  return longest;
}

class Reader final : public nlohmann::json_sax<json> {
 public:
  Reader(const std::string& file, std::string_view subject, HeaderBudget& budget,
         FunctionRef<void(const JsonValue&)> use)
      : file_(file), subject_(subject), budget_(budget), use_(use) {}

  // The file, the text and what is wrong with it.
  template <class... Args>
  [[noreturn]] void malformed(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::Malformed, "{}: {} {}", file_, subject_, fmt::format(format, std::forward<Args>(args)...));
  }

  bool null() override {
    if (arrays_ > 0) {
      plain_ = false;
    } else {
      emit(JsonValue::Kind::Null);
    }
    return true;
  }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(int64_t{value}); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(uint64_t{value}); }
  bool number_float(number_float_t value, const string_t&) override { return scalar(value); }
  bool string(string_t& value) override {
    if (arrays_ != 1 || !plain_) return scalar(std::string_view(value));
    const uint64_t memory = kStringMemory + value.size();
    budget_.charge(file_, memory);
    list_memory_ += memory;
    return scalar(std::string_view(list_strings_.emplace_back(value)));
  }
  bool binary(binary_t&) override { return false; }  // no JSON text has it

  bool start_object(size_t) override {
    enter();
    if (arrays_ > 0) plain_ = false;
    keys_.emplace_back();
    if (arrays_ == 0) path_.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    const uint64_t memory = kKeyMemory + name.size();
    budget_.charge(file_, memory);
    keys_.back().memory += memory;
    if (!keys_.back().names.insert(name).second) {
      malformed("has the key {} twice in one object; each may be there once", in_quotes(name));
    }
    if (arrays_ == 0) path_.back() = name;
    return true;
  }
  bool end_object() override {
    --levels_;
    const bool empty = keys_.back().names.empty();
    budget_.refund(keys_.back().memory);
    keys_.pop_back();
    if (arrays_ > 0) return true;
    path_.pop_back();
    if (empty && !path_.empty()) emit(JsonValue::Kind::Other);
    return true;
  }

  bool start_array(size_t) override {
    enter();
    if (path_.empty()) malformed("is an array; it must be an object");
    plain_ = arrays_ == 0;
    ++arrays_;
    return true;
  }
  bool end_array() override {
    --levels_;
    if (--arrays_ > 0) return true;
    if (plain_) {
      emit(JsonValue::Kind::List, {}, list_);
    } else {
      emit(JsonValue::Kind::Other);
    }
    list_.clear();
    list_strings_.clear();
    budget_.refund(std::exchange(list_memory_, 0));
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    malformed("is no JSON that can be read, at byte {}", position);
  }

 private:
  struct Keys {
    std::set<std::string> names;
    uint64_t memory = 0;  // charged for them
  };

  void enter() {
    if (++levels_ > kMostLevels) malformed("nests more than {} levels of objects and arrays", kMostLevels);
  }

  bool scalar(const MetadataScalar& value) {
    if (arrays_ == 0) {
      emit(JsonValue::Kind::Scalar, value);
    } else if (arrays_ == 1 && plain_) {
      if (list_.size() == kMostElements) malformed("has an array of more than {} elements", kMostElements);
      list_.push_back(value);
    }
    return true;
  }

  void emit(JsonValue::Kind kind, const MetadataScalar& scalar = {}, std::span<const MetadataScalar> list = {}) {
    if (path_.empty()) malformed("is a single value; it must be an object");
    use_({path_, kind, scalar, list});
  }

  const std::string& file_;
  const std::string_view subject_;
  HeaderBudget& budget_;
  FunctionRef<void(const JsonValue&)> use_;
  size_t levels_ = 0;              // objects and arrays that are open
  size_t arrays_ = 0;              // of them, the outermost array and what is inside it
  std::vector<Keys> keys_;         // of every open object
  std::vector<std::string> path_;  // the current key of every open object outside arrays
  bool plain_ = true;              // the outermost open array has held scalars alone
  std::vector<MetadataScalar> list_;
  std::deque<std::string> list_strings_;  // what list_ views
  uint64_t list_memory_ = 0;              // charged for them
};

}  // namespace

void read_json(std::span<const std::byte> text, const std::string& file, std::string_view subject, HeaderBudget& budget,
               FunctionRef<void(const JsonValue&)> use) {
  budget.charge(file, text.size());
  const std::string_view letters(reinterpret_cast<const char*>(text.data()), text.size());
  Reader reader(file, subject, budget, use);
  if (!is_utf8(letters)) reader.malformed("is not UTF-8");
  // The parser takes a NUL for the end of the text, and would let anything follow it.
  if (const auto at = letters.find('\0'); at != letters.npos) reader.malformed("has a NUL, at byte {}", at + 1);
  if (longest_string(letters) > kMostStringBytes) {
    reader.malformed("has a string of more than {} bytes", kMostStringBytes);
  }
  json::sax_parse(letters.begin(), letters.end(), &reader);
}

}  // namespace lockstep
