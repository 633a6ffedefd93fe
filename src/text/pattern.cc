// Oniguruma's syntax rewritten for PCRE2, and the bounded search.
//
// PCRE2 backtracks, and patterns come from files. What one match may cost is bounded twice: by PCRE2's own limit of
// backtracking steps, and by a window. PCRE2 is shown the text only up to a little behind the place where a match may
// begin; when it asks for more, the window grows, and what has been shown in vain is charged to an allowance that
// follows the length of the text. So a pattern that looks far ahead from every place ends with an error, while long
// words, which are looked at once, do not.
#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "text/unicode.h"

namespace lockstep {
namespace {

constexpr size_t kMostBytes = size_t{16} << 10;  // of a pattern; the longest in use have a few hundred
constexpr size_t kFirstWindow = 64;              // bytes
constexpr uint32_t kStepsOfMatch = 2000;         // of backtracking, beside those for the bytes
constexpr uint32_t kStepsPerByte = 16;
constexpr size_t kShownPerByte = 64;  // bytes shown in vain, for each byte of the text
constexpr size_t kShownAtLeast = size_t{1} << 20;

struct Pcre2Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
template <class T>
using Pcre2Ptr = std::unique_ptr<T, Pcre2Free>;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 128> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Classes that the two read differently, spelt out: PCRE2's \s also holds U+180E, its \w and \b know no marks, and \h
// is a hexadecimal digit in Oniguruma.
constexpr std::string_view kSpace =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kHex = "0-9A-Fa-f";

// One pattern on its way from Oniguruma to PCRE2.
class Rewriter {
 public:
  Rewriter(std::string_view pattern, std::string_view where) : in_(pattern), where_(where) {}

  std::string rewrite() {
    while (at_ < in_.size()) {
      if (in_[at_] == '\\') {
        escape();
      } else if (in_class_) {
        inside_class();
      } else {
        outside_class();
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view construct) const {
    fail(ErrorKind::Unsupported, "{} is the pattern {}, which has {}; lockstep cannot read that", where_,
         in_quotes(in_), construct);
  }
  char next(size_t ahead) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }

  void copy(size_t bytes) {
    out_ += in_.substr(at_, bytes);
    at_ += bytes;
  }
  void put(std::string_view text, size_t bytes) {
    out_ += text;
    at_ += bytes;
  }
  void put_class(std::string_view members, bool negated) {
    if (in_class_ && negated) refuse("a negated class inside a class");
    put(in_class_ ? std::string(members) : fmt::format("[{}{}]", negated ? "^" : "", members), 2);
  }

  void escape() {
    if (at_ + 1 == in_.size()) refuse("a backslash at its end");
    switch (next(1)) {
      case 's':
        return put_class(kSpace, false);
      case 'w':
        return put_class(kWord, false);
      case 'h':
        return put_class(kHex, false);
      case 'S':
        if (in_class_) refuse(R"(\S inside a class)");
        return put_class(kSpace, true);
      case 'W':
        return put_class(kWord, true);
      case 'H':
        return put_class(kHex, true);
      case 'b':
        if (in_class_) return copy(2);  // a backspace
        return put(fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWord), 2);
      case 'B':
        return put(fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", kWord), 2);
      case 'u':
        put(fmt::format("\\x{{{}}}", in_.substr(at_ + 2, 4)), 6);
        return;
      case 'g':
      case 'k':
      case 'K':
      case 'G':
      case 'C':
      case 'X':
      case 'R':
      case 'N':
      case 'O':
      case 'y':
      case 'Y':
      case 'M':
      case 'c':
        refuse(fmt::format("\\{}", next(1)));
      case 'p':
      case 'P':
      case 'x':
        if (next(2) == '{') return copy(std::min(in_.find('}', at_), in_.size() - 1) + 1 - at_);
        return copy(2);
      default:
        return copy(2);
    }
  }

  void inside_class() {
    if (in_[at_] == '[') refuse("a class inside a class");
    if (in_[at_] == '&' && next(1) == '&') refuse("&& inside a class");
    if (in_[at_] == ']') in_class_ = false;
    copy(1);
  }

  void outside_class() {
    const char c = in_[at_];
    if (c == '[') {
      in_class_ = true;
      copy(next(1) == '^' ? 2 : 1);
      if (next(0) == ']') copy(1);  // a member, not the end
    } else if (c == '}' && next(1) == '+') {
      refuse("{n,m}+");  // possessive to one, a repeat of the repeat to the other
    } else if (c == '(' && next(1) == '?' && std::string_view("imx-:=!><#").find(next(2)) == std::string_view::npos) {
      refuse(fmt::format("(?{}", next(2)));
    } else if (c == '(' && next(1) == '?' && std::string_view("imx-").find(next(2)) != std::string_view::npos) {
      flags();
    } else if (c == '(' && next(1) == '*') {
      refuse("(*");
    } else if (c == '(' && next(1) == '?' && next(2) == '<' && next(3) != '=' && next(3) != '!') {
      refuse("a named group");
    } else {
      copy(1);
    }
  }

  // Oniguruma's m lets the dot match a newline, which is s in PCRE2; its ^ and $ are at every line anyway.
  void flags() {
    copy(2);
    while (at_ < in_.size() && in_[at_] != ')' && in_[at_] != ':') {
      if (std::string_view("imx-").find(in_[at_]) == std::string_view::npos)
        refuse(fmt::format("the flag {}", in_[at_]));
      put(in_[at_] == 'm' ? "s" : in_.substr(at_, 1), 1);
    }
  }

  const std::string_view in_, where_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

struct Pattern::Compiled {
  Pcre2Ptr<pcre2_code> code;
};

Pattern::Pattern() = default;
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;

Pattern Pattern::literal(std::string_view text) {
  Pattern pattern;
  pattern.source_ = text;
  return pattern;
}

Pattern Pattern::regex(std::string_view source, std::string_view where) {
  if (source.size() > kMostBytes) {
    fail(ErrorKind::Unsupported, "{} is a pattern of {} bytes; the longest that can be used has {}", where,
         source.size(), kMostBytes);
  }
  Pattern pattern;
  pattern.source_ = source;
  pattern.compiled_ = std::make_unique<Compiled>();
  const std::string rewritten = Rewriter(source, where).rewrite();
  int error = 0;
  PCRE2_SIZE offset = 0;
  pattern.compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                                              &offset, nullptr));
  if (!pattern.compiled_->code) {
    fail(ErrorKind::Unsupported, "{} is the pattern {}, which cannot be used: {}", where, in_quotes(source),
         message_of(error));
  }
  // Where there is no JIT, pcre2_match interprets.
  pcre2_jit_compile(pattern.compiled_->code.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  return pattern;
}

void Pattern::find(std::string_view text, std::vector<Match>& matches) const {
  if (!compiled_) {
    for (size_t at = text.find(source_); at != text.npos; at = text.find(source_, at + source_.size())) {
      matches.push_back({at, at + source_.size()});
    }
    return;
  }
  const Pcre2Ptr<pcre2_match_data> match(pcre2_match_data_create(1, nullptr));
  const Pcre2Ptr<pcre2_match_context> limits(pcre2_match_context_create(nullptr));
  if (!match || !limits) throw std::bad_alloc();
  pcre2_set_heap_limit(limits.get(), 20 << 10);                           // KiB, where there is no JIT
  const PCRE2_SIZE* const span = pcre2_get_ovector_pointer(match.get());  // [begin, end) of the last match

  const auto too_much = [&] {
    fail(ErrorKind::Unsupported, "the tokenizer's pattern {} needs too many steps on this text", in_quotes(source_));
  };
  size_t allowance = std::max(kShownAtLeast, text.size() * kShownPerByte);
  size_t window = kFirstWindow, limited_for = 0;
  size_t last_end = text.npos;  // of the last match
  for (size_t at = 0; at <= text.size();) {
    size_t end = window < text.size() - at ? at + window : text.size();
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    if (window != limited_for) {
      limited_for = window;
      pcre2_set_match_limit(
          limits.get(), static_cast<uint32_t>(std::min<size_t>(kStepsOfMatch + kStepsPerByte * window, UINT32_MAX)));
    }
    const int found =
        pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), end, at,
                    PCRE2_NO_UTF_CHECK | (end < text.size() ? PCRE2_PARTIAL_HARD : 0), match.get(), limits.get());
    if (found == PCRE2_ERROR_PARTIAL) {
      if (end - at > allowance) too_much();
      allowance -= end - at;
      // The text before the place where the partial match begins has none.
      window = 4 * (end - at);
      continue;
    }
    if (found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_JIT_STACKLIMIT || found == PCRE2_ERROR_HEAPLIMIT ||
        found == PCRE2_ERROR_DEPTHLIMIT) {
      too_much();
    }
    window = kFirstWindow;
    if (found == PCRE2_ERROR_NOMATCH) {
      if (end == text.size()) return;
      at = end;
      continue;
    }
    if (found < 0) fail(ErrorKind::Internal, "the pattern {} failed: {}", in_quotes(source_), message_of(found));
    const Match here{span[0], span[1]};
    if (here.begin == here.end && here.end == last_end) {  // an empty match right behind the last one is none
      if (at == text.size()) return;
      at += first_character(text.substr(at)).length;
      continue;
    }
    matches.push_back(here);
    at = last_end = here.end;
  }
}

}  // namespace lockstep
