// One class a step. Each holds back only what the next token may still change.
#include "text/token_decoder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace lockstep {
namespace {

using namespace decode;
using Mode = TokenDecoding::Mode;

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = text.find(from); at != text.npos; at = text.find(from)) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

class Sink final : public DecodeStage {
 public:
  explicit Sink(std::string& out) : out_(out) {}
  void put(std::string_view text, bool, bool) override { out_ += text; }
  void finish() override {}

 private:
  std::string& out_;
};

class Stage : public DecodeStage {
 public:
  explicit Stage(DecodeStage& next) : next_(next) {}
  void finish() override { next_.finish(); }

 protected:
  DecodeStage& next_;
};

// Puts the pieces of a token together.
class WholeTokens : public Stage {
 public:
  using Stage::Stage;
  void put(std::string_view text, bool ends, bool literal) final {
    held_ += text;
    if (!ends) return;
    token(std::exchange(held_, {}), literal);
  }

 protected:
  virtual void token(std::string token, bool literal) = 0;

 private:
  std::string held_;
};

class FuseStage final : public Stage {
 public:
  using Stage::Stage;
  void put(std::string_view text, bool, bool) override { next_.put(text, false, false); }
  void finish() override { end_the_one_token(next_); }

  static void end_the_one_token(DecodeStage& next) {
    next.put("", true, false);
    next.finish();
  }
};

class ByteLevelStage final : public WholeTokens {
 public:
  using WholeTokens::WholeTokens;
  void token(std::string token, bool literal) override {
    const auto bytes = literal ? std::nullopt : alphabet_.bytes(token);
    next_.put(bytes ? *bytes : token, false, false);
  }
  void finish() override { FuseStage::end_the_one_token(next_); }

 private:
  const ByteAlphabet alphabet_;
};

class ByteFallbackStage final : public WholeTokens {
 public:
  ByteFallbackStage(DecodeStage& next, Mode mode) : WholeTokens(next), mode_(mode) {}
  void token(std::string token, bool) override {
    if (const auto byte = byte_of(token)) {
      run_ += static_cast<char>(*byte);
    } else {
      flush();
      next_.put(token, true, false);
    }
  }
  void finish() override {
    flush();
    next_.finish();
  }

 private:
  static std::optional<uint8_t> byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
    return error == std::errc() && end == token.data() + 5 ? std::optional(byte) : std::nullopt;
  }
  void flush() {
    const std::string run = std::exchange(run_, {});
    if (run.empty()) return;
    if (mode_ == Mode::Inside || is_utf8(run)) {
      next_.put(run, true, false);
    } else {
      for (size_t i = 0; i < run.size(); ++i) next_.put("\xEF\xBF\xBD", true, false);
    }
  }

  const Mode mode_;
  std::string run_;
};

class StripStage final : public Stage {
 public:
  StripStage(DecodeStage& next, const Strip& step) : Stage(next), step_(step) {}
  void put(std::string_view text, bool ends, bool) override {
    const std::string& c = step_.character;
    while (stripped_ < step_.left && text.starts_with(c)) text.remove_prefix(c.size()), ++stripped_;
    if (!text.empty()) stripped_ = step_.left;
    // At the end: at most `right` of them are held back.
    std::string all = std::exchange(held_, {});
    all += text;
    std::string_view rest = all;
    size_t count = 0;
    while (count < step_.right && rest.ends_with(c)) rest.remove_suffix(c.size()), ++count;
    if (!ends) held_ = all.substr(rest.size());
    next_.put(rest, ends, false);
    if (ends) stripped_ = 0;
  }

 private:
  const Strip& step_;
  size_t stripped_ = 0;
  std::string held_;
};

// A plain string is replaced as it goes by; a regular expression waits for the token to end.
class ReplaceStage final : public Stage {
 public:
  ReplaceStage(DecodeStage& next, const Replace& step) : Stage(next), step_(step) {}
  void put(std::string_view text, bool ends, bool) override {
    held_ += text;
    if (!ends && step_.literal.empty()) return;
    std::vector<Pattern::Match> matches;
    step_.pattern->find(held_, matches);
    std::string out;
    size_t begin = 0;
    for (const auto& match : matches) {
      out.append(held_, begin, match.begin - begin).append(step_.content);
      begin = match.end;
    }
    const size_t end = ends ? held_.size() : held_.size() - open_end(begin);
    out.append(held_, begin, end - begin);
    held_.erase(0, end);
    next_.put(out, ends, false);
  }

 private:
  // Bytes at the end of what is held, from `begin` on, that may begin a match.
  size_t open_end(size_t begin) const {
    const std::string_view rest = std::string_view(held_).substr(begin);
    size_t length = std::min(rest.size(), step_.literal.size() - 1);
    while (!step_.literal.starts_with(rest.substr(rest.size() - length))) --length;
    return length;
  }

  const Replace& step_;
  std::string held_;
};

class MetaspaceStage final : public WholeTokens {
 public:
  MetaspaceStage(DecodeStage& next, const Metaspace& step, Mode mode)
      : WholeTokens(next), step_(step), first_(mode == Mode::Whole) {}
  void token(std::string token, bool) override {
    std::string out;
    for (std::string_view rest = token; !rest.empty();) {
      const bool is_space = rest.starts_with(step_.replacement);
      const size_t length = is_space ? step_.replacement.size() : 1;
      if (!is_space) out += rest[0];
      if (is_space && !(first_ && step_.drop_in_first)) out += ' ';
      rest.remove_prefix(length);
    }
    first_ = false;
    next_.put(out, true, false);
  }

 private:
  const Metaspace& step_;
  bool first_;
};

// No space before punctuation and contractions.
void clean_up(std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kChanges{{
      {" .", "."},
      {" ?", "?"},
      {" !", "!"},
      {" ,", ","},
      {" ' ", "'"},
      {" n't", "n't"},
      {" 'm", "'m"},
      {" do not", " don't"},
      {" 's", "'s"},
      {" 've", "'ve"},
      {" 're", "'re"},
  }};
  for (const auto& [from, to] : kChanges) text = replaced(text, from, to);
}

class WordPieceStage final : public WholeTokens {
 public:
  WordPieceStage(DecodeStage& next, const WordPiece& step, Mode mode)
      : WholeTokens(next), step_(step), first_(mode == Mode::Whole) {}
  void token(std::string token, bool) override {
    if (!std::exchange(first_, false)) {
      if (token.starts_with(step_.prefix)) {
        token.erase(0, step_.prefix.size());
      } else {
        token.insert(token.begin(), ' ');
      }
    }
    if (step_.clean_up) clean_up(token);
    next_.put(token, true, false);
  }

 private:
  const WordPiece& step_;
  bool first_;
};

class WordEndsStage final : public WholeTokens {
 public:
  WordEndsStage(DecodeStage& next, const WordEnds& step) : WholeTokens(next), step_(step) {}
  void token(std::string token, bool) override {
    if (last_) next_.put(replaced(*last_, step_.suffix, " "), true, false);
    last_ = std::move(token);
  }
  void finish() override {
    if (last_) next_.put(replaced(*std::exchange(last_, std::nullopt), step_.suffix, ""), true, false);
    next_.finish();
  }

 private:
  const WordEnds& step_;
  std::optional<std::string> last_;
};

class CtcStage final : public WholeTokens {
 public:
  CtcStage(DecodeStage& next, const Ctc& step) : WholeTokens(next), step_(step) {}
  void token(std::string token, bool) override {
    if (last_ == token) return;
    std::string text = replaced(token, step_.pad, "");
    last_ = std::move(token);
    if (step_.clean_up) {
      clean_up(text);
      text = replaced(text, step_.between, " ");
    }
    if (!text.empty()) next_.put(text, true, false);
  }

 private:
  const Ctc& step_;
  std::optional<std::string> last_;
};

class JoinStage final : public WholeTokens {
 public:
  using WholeTokens::WholeTokens;
  void token(std::string token, bool) override {
    if (!std::exchange(first_, false)) token.insert(token.begin(), ' ');
    next_.put(token, true, false);
  }

 private:
  bool first_ = true;
};

struct MakeStage {
  DecodeStage& next;
  Mode mode;

  using Made = std::unique_ptr<DecodeStage>;
  Made operator()(const ByteLevel&) const { return std::make_unique<ByteLevelStage>(next); }
  Made operator()(const ByteFallback&) const { return std::make_unique<ByteFallbackStage>(next, mode); }
  Made operator()(const Fuse&) const { return std::make_unique<FuseStage>(next); }
  Made operator()(const Strip& step) const { return std::make_unique<StripStage>(next, step); }
  Made operator()(const Replace& step) const { return std::make_unique<ReplaceStage>(next, step); }
  Made operator()(const Metaspace& step) const { return std::make_unique<MetaspaceStage>(next, step, mode); }
  Made operator()(const WordPiece& step) const { return std::make_unique<WordPieceStage>(next, step, mode); }
  Made operator()(const WordEnds& step) const { return std::make_unique<WordEndsStage>(next, step); }
  Made operator()(const Ctc& step) const { return std::make_unique<CtcStage>(next, step); }
  Made operator()(const JoinBySpaces&) const { return std::make_unique<JoinStage>(next); }
};

}  // namespace

TokenDecoding::TokenDecoding(const std::vector<Step>& steps, Mode mode) {
  stages_.push_back(std::make_unique<Sink>(out_));
  for (size_t i = steps.size(); i-- > 0;) {
    // What is done at the ends of a text or between tokens is not done inside.
    const bool at_ends = std::holds_alternative<Strip>(steps[i]) || std::holds_alternative<JoinBySpaces>(steps[i]);
    if (mode == Mode::Inside && at_ends) continue;
    stages_.push_back(std::visit(MakeStage{*stages_.back(), mode}, steps[i]));
  }
  first_ = stages_.back().get();
}
TokenDecoding::~TokenDecoding() = default;

std::string TokenDecoding::take() {
  return std::exchange(out_, {});
}

}  // namespace lockstep
