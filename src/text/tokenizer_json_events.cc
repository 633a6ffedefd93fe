// The parser's events, put together to values: a value is complete at the end of its outermost array or object.
#include "text/tokenizer_json_events.h"

#include <array>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/quoted.h"
#include "base/utf8.h"

namespace lockstep {
namespace {

using nlohmann::json;

constexpr size_t kMostBytes = size_t{256} << 20;
constexpr size_t kMostLevels = 32;
constexpr size_t kMostValues = 65536;  // kept at one time

class Events final : public nlohmann::json_sax<json> {
 public:
  Events(const std::string& file, TokenizerJsonVisitor* visitor) : file_(file), visitor_(visitor) {}

  json take() { return std::move(root_); }

  template <class... Args>
  [[noreturn]] void malformed(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::Malformed, "{}: it {}", file_, fmt::format(format, std::forward<Args>(args)...));
  }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // no JSON text has it
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool key(string_t& name) override {
    key_ = std::move(name);
    if (stream_ == Stream::None) path_.back() = key_;
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    malformed("is no JSON that can be read, at byte {}", position);
  }

 private:
  enum class Stream { None, Vocabulary, Merges, AddedTokens, Ignored };

  // Which stream the value at path_ begins.
  Stream stream_here() const {
    const auto is = [&](size_t level, std::string_view name) { return path_[level] == name; };
    if (stream_ != Stream::None || path_.empty()) return Stream::None;
    if (visitor_ == nullptr) return path_.size() == 1 && is(0, "added_tokens_decoder") ? Stream::Ignored : Stream::None;
    if (path_.size() == 1 && is(0, "added_tokens")) return Stream::AddedTokens;
    if (path_.size() == 2 && is(0, "model") && is(1, "vocab")) return Stream::Vocabulary;
    if (path_.size() == 2 && is(0, "model") && is(1, "merges")) return Stream::Merges;
    return Stream::None;
  }

  bool open(json value) {
    if (++levels_ > kMostLevels) malformed("nests more than {} levels of objects and arrays", kMostLevels);
    if (const Stream begun = stream_here(); begun != Stream::None) {
      if (seen_[static_cast<size_t>(begun)]++ > 0) malformed("has the key {} twice in one object", in_quotes(key_));
      stream_ = begun;
      stream_level_ = levels_;
      if (begun == Stream::AddedTokens && !value.is_array()) malformed("has added_tokens that are no array");
      if (begun == Stream::Merges && !value.is_array()) malformed("has model.merges that are no array");
      key_.clear();
    } else {
      open_.push_back(&place(std::move(value)));
    }
    if (stream_ == Stream::None) path_.emplace_back();
    return true;
  }

  bool close() {
    --levels_;
    if (stream_ != Stream::None && levels_ < stream_level_) {
      stream_ = Stream::None;
      return true;
    }
    open_.pop_back();
    if (stream_ == Stream::None) {
      path_.pop_back();
    } else if (levels_ == stream_level_) {
      deliver(element_key_, element_);
    }
    return true;
  }

  bool put(json value) {
    if (levels_ == 0) malformed("is a single value; it must be an object");
    if (stream_ != Stream::None && levels_ == stream_level_) {
      deliver(key_, value);
    } else {
      place(std::move(value));
    }
    return true;
  }

  // Where the value belongs in what is being put together.
  json& place(json value) {
    if (stream_ != Stream::None && levels_ - 1 == stream_level_ && value.is_structured()) {
      element_ = std::move(value);
      element_key_ = key_;
      values_ = kept_;
      return element_;
    }
    if (++values_ > kMostValues) {
      fail(ErrorKind::DoesNotFit, "{}: it has more than {} values beside its vocabulary", file_, kMostValues);
    }
    if (stream_ == Stream::None) kept_ = values_;
    if (open_.empty()) return root_ = std::move(value);
    json& parent = *open_.back();
    if (parent.is_array()) return parent.emplace_back(std::move(value));
    if (parent.contains(key_)) malformed("has the key {} twice in one object", in_quotes(key_));
    return parent[key_] = std::move(value);
  }

  void deliver(const std::string& key, const json& value) {
    if (stream_ == Stream::Vocabulary) visitor_->vocabulary(key, value);
    if (stream_ == Stream::Merges) visitor_->merge(value);
    if (stream_ == Stream::AddedTokens) visitor_->added_token(value);
  }

  const std::string& file_;
  TokenizerJsonVisitor* const visitor_;  // null: of a small file
  json root_;
  std::vector<json*> open_;        // arrays and objects being put together, outermost first
  std::vector<std::string> path_;  // the current key of every open object outside streams
  std::string key_;                // read last
  size_t levels_ = 0;              // open ones, streams and all
  Stream stream_ = Stream::None;
  size_t stream_level_ = 0;  // levels_ inside the stream's array or object
  std::array<int, 5> seen_{};
  json element_;  // of the stream
  std::string element_key_;
  size_t kept_ = 0, values_ = 0;  // values of root_, and of the element with them
};

json read(const JsonFile& file, TokenizerJsonVisitor* visitor) {
  if (file.text.size() > kMostBytes) {
    fail(ErrorKind::DoesNotFit, "{}: it has {} bytes; at most {} can be read", file.name, file.text.size(), kMostBytes);
  }
  Events events(file.name, visitor);
  if (!is_utf8(file.text)) events.malformed("is not UTF-8");
  // The parser takes a NUL for the end of the text, and would let anything follow it.
  if (const auto at = file.text.find('\0'); at != file.text.npos) events.malformed("has a NUL, at byte {}", at + 1);
  json::sax_parse(file.text.begin(), file.text.end(), &events);
  json root = events.take();
  if (!root.is_object()) events.malformed("is an array; it must be an object");
  return root;
}

}  // namespace

json read_tokenizer_json(const JsonFile& file, TokenizerJsonVisitor& visitor) {
  return read(file, &visitor);
}
json read_small_json(const JsonFile& file) {
  return read(file, nullptr);
}

}  // namespace lockstep
