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
#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
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
// is a hexadecimal digit in Oniguruma. Outside of classes, its words have some digits and fractions of Latin-1 too.
constexpr std::string_view kSpace =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kWordInClass = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\xB2\xB3\xB9\xBC-\xBE)";
constexpr std::string_view kHex = "0-9A-Fa-f";

// Letters that mean the same to both behind a backslash.
constexpr std::string_view kSameEscapes = "dDtnrfaeAzZ", kSameInClass = "dDtnrfaeb";
// Where case is ignored, each is one character to Oniguruma as well, and these properties change.
constexpr std::array<std::string_view, 5> kLigatures{"ff", "fi", "fl", "ss", "st"};
constexpr std::array<std::string_view, 7> kOfCase{"lu", "ll", "lt", "upper", "uppercase", "lower", "lowercase"};

bool compiles(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  return Pcre2Ptr<pcre2_code>(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF,
                                            &error, &offset, nullptr)) != nullptr;
}

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// One pattern on its way from Oniguruma to PCRE2. What is not known to mean the same to both is refused.
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
  bool ignores_case() const { return ignores_case_.back(); }
  bool behind_hyphen() const { return in_class_ && hyphen_ + 1 == at_; }

  void copy(size_t bytes) { put(in_.substr(at_, bytes), bytes); }
  // A bracket of a group does not part letters.
  void copy_bracket(size_t bytes) {
    if (letter_end_ == at_) letter_end_ += bytes;
    copy(bytes);
  }
  void put(std::string_view text, size_t bytes) {
    out_ += text;
    at_ += bytes;
  }
  void put_class(std::string_view members, bool negated) {
    if (!in_class_) return put(fmt::format("[{}{}]", negated ? "^" : "", members), 2);
    if (negated) refuse("a negated class inside a class");
    if (behind_hyphen() || (next(2) == '-' && next(3) != ']')) refuse("a range of classes");
    put(members, 2);
  }

  // A character that stands for itself, written in so many bytes.
  void put_character(char32_t c, std::string_view text, size_t bytes) {
    if (ignores_case()) {
      if (c >= 0x80 && (behind_hyphen() || u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASE_SENSITIVE) != 0)) {
        refuse(fmt::format("(?i) with U+{:04X}", static_cast<uint32_t>(c)));
      }
      const char letter = c < 0x80 ? static_cast<char>(std::tolower(static_cast<int>(c))) : '\0';
      const std::string pair{letter_end_ == at_ ? letter_ : '\0', letter};
      if (!in_class_ && std::ranges::find(kLigatures, pair) != kLigatures.end())
        refuse(fmt::format("(?i) with {}", pair));
      letter_ = letter;
      letter_end_ = at_ + bytes;
    }
    put(text, bytes);
  }
  // Behind `begin` bytes of an escape come these digits, and `end` bytes more.
  void put_code(size_t begin, size_t digits, size_t end) {
    const std::string_view code = in_.substr(std::min(at_ + begin, in_.size()), digits);
    uint32_t value = 0;
    const auto [rest, error] = std::from_chars(code.data(), code.data() + code.size(), value, 16);
    const bool byte = in_[at_ + 1] == 'x' && end == 0 && value >= 0x80;
    if (digits == 0 || code.size() < digits || rest != code.data() + code.size() || error != std::errc() || byte) {
      refuse(fmt::format("\\{}{}", in_[at_ + 1], code));
    }
    put_character(value, fmt::format("\\x{{{:X}}}", value), begin + digits + end);
  }

  void escape() {
    const char letter = next(1);
    switch (letter) {
      case 's':
      case 'S':
        return put_class(kSpace, letter == 'S');
      case 'w':
      case 'W':
        if (in_class_ && ignores_case()) refuse("(?i) with a property in a class");
        return put_class(in_class_ ? kWordInClass : kWord, letter == 'W');
      case 'h':
      case 'H':
        return put_class(kHex, letter == 'H');
      case 'b':
        if (in_class_) return copy(2);  // a backspace
        return put(fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWord), 2);
      case 'B':
        if (in_class_) break;
        return put(fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", kWord), 2);
      case 'v':
        return put("\\x0B", 2);
      case 'u':
        return put_code(2, 4, 0);
      case 'x': {
        if (next(2) == '{') return put_code(3, std::min(in_.find('}', at_), in_.size()) - at_ - 3, 1);
        const auto is_hex = [&](size_t ahead) { return kHexDigits.find(next(ahead)) != std::string_view::npos; };
        return put_code(2, !is_hex(2) ? 0 : !is_hex(3) ? 1 : 2, 0);
      }
      case 'p':
      case 'P':
        return property();
      default:
        if ((letter & 0x80) != 0) return static_cast<void>(++at_);
        if ((letter != '\0' && !is_letter_or_digit(letter)) ||
            (in_class_ ? kSameInClass : kSameEscapes).find(letter) != std::string_view::npos) {
          return copy(2);
        }
    }
    if (at_ + 1 == in_.size()) refuse("a backslash at its end");
    refuse(fmt::format("\\{}{}", letter, in_class_ ? " in a class" : ""));
  }

  // \p{NAME}, \p{^NAME}, \P{NAME}. A script is all that is used with it to PCRE2, unless it is told "sc:".
  void property() {
    const size_t end = in_.find('}', at_);
    if (next(2) != '{' || end == std::string_view::npos) refuse(fmt::format("\\{} without {{", next(1)));
    const size_t name_at = at_ + (next(3) == '^' ? 4 : 3);
    const std::string_view name = in_.substr(name_at, end - name_at);
    std::string letters;
    for (const char c : name) {
      if (is_letter_or_digit(c)) letters += static_cast<char>(std::tolower(c));
    }
    if (ignores_case() && in_class_) refuse("(?i) with a property in a class");
    if (ignores_case() && std::ranges::find(kOfCase, letters) != kOfCase.end()) {
      refuse(fmt::format("(?i) with \\p{{{}}}", name));
    }
    copy(name_at - at_);
    if (compiles(fmt::format("\\p{{sc:{}}}", name))) out_ += "sc:";
    copy(end + 1 - at_);
  }

  void inside_class() {
    const char c = in_[at_];
    if (c == '[') refuse("a class inside a class");
    if (c == '&' && next(1) == '&') refuse("&& inside a class");
    if (c == ']') {
      in_class_ = false;
      return copy(1);
    }
    if (c == '-' && at_ != class_begin_) hyphen_ = at_;
    put_text();
  }

  void outside_class() {
    const char c = in_[at_];
    if (c == '[') {
      in_class_ = true;
      copy(next(1) == '^' ? 2 : 1);
      class_begin_ = at_;
      if (next(0) == ']') copy(1);  // a member, not the end
    } else if (c == '{') {
      interval();
    } else if (c == '(') {
      group();
    } else if (c == ')') {
      if (ignores_case_.size() > 1) ignores_case_.pop_back();
      copy_bracket(1);
    } else {
      put_text();
      if (c == '|') alternative_begin_ = at_;
    }
  }

  void put_text() {
    const auto [code, length] = first_character(in_.substr(at_));
    put_character(code, in_.substr(at_, length), length);
  }

  // {n}, {n,}, {n,m} and {,m}; any other brace stands for itself.
  void interval() {
    size_t end = at_ + 1;
    const auto digits = [&] {
      const size_t begin = end;
      while (end < in_.size() && in_[end] >= '0' && in_[end] <= '9') ++end;
      return end - begin;
    };
    const size_t least = digits();
    const bool fixed = end == in_.size() || in_[end] != ',';
    if (!fixed) ++end;
    const size_t most = fixed ? least : digits();
    if (end >= in_.size() || in_[end] != '}' || least + most == 0) return put("\\{", 1);
    const char behind = next(end + 1 - at_);
    if (behind == '+' || (fixed && behind == '?')) refuse(fmt::format("{{n{}}}{}", fixed ? "" : ",m", behind));
    if (ignores_case() && letter_end_ == at_ && (letter_ == 's' || letter_ == 'f')) {
      refuse(fmt::format("(?i) with {}{{n}}", letter_));
    }
    if (least == 0) out_ += "{0", ++at_;
    copy(end + 1 - at_);
  }

  void group() {
    const bool begins_alternative = at_ == alternative_begin_;
    ignores_case_.push_back(ignores_case());
    const char kind = next(1) != '?' ? '\0' : next(2);
    if (next(1) == '*') refuse("(*");
    if (next(1) != '?') {
      copy(1);
    } else if (kind == ':' || kind == '=' || kind == '!' || kind == '>') {
      copy_bracket(3);
    } else if (kind == '<' && (next(3) == '=' || next(3) == '!')) {
      copy(4);
    } else if (kind == 'i' || kind == 'm' || kind == '-') {
      flags(begins_alternative);
    } else {
      refuse(kind == '<' ? "a named group" : fmt::format("(?{}", kind));
    }
    alternative_begin_ = at_;
  }

  // Oniguruma's m lets the dot match a newline, which is s in PCRE2; its ^ and $ are at every line anyway. Flags for
  // what follows end the alternative to Oniguruma: a(?i)b|c is a(?i:b|c).
  void flags(bool begins_alternative) {
    bool on = true;
    for (copy(2); at_ < in_.size() && in_[at_] != ')' && in_[at_] != ':';) {
      const char flag = in_[at_];
      if (flag != 'i' && flag != 'm' && flag != '-') refuse(fmt::format("the flag {}", flag));
      if (flag == '-') on = false;
      if (flag == 'i') ignores_case_.back() = on;
      put(flag == 'm' ? "s" : in_.substr(at_, 1), 1);
    }
    if (next(0) == ')') {
      if (!begins_alternative) refuse("flags inside an alternative");
      const bool ignores = ignores_case();
      ignores_case_.pop_back();
      ignores_case_.back() = ignores;
    }
    copy(1);
  }

  static constexpr std::string_view kHexDigits = "0123456789ABCDEFabcdef";
  const std::string_view in_, where_;
  size_t at_ = 0;
  size_t alternative_begin_ = 0;
  std::vector<bool> ignores_case_{false};  // one more for each group
  char letter_ = '\0';                     // the last character where case is ignored, '\0' beyond ASCII
  size_t letter_end_ = 0;
  bool in_class_ = false;
  size_t class_begin_ = 0;                  // its first member
  size_t hyphen_ = std::string_view::npos;  // the last in a class that may make a range
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
  if (text.empty()) return;
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
