// The table of patterns, and PCRE2 to run them.
//
// The patterns are those of the tokenizers' own definitions; all run in time linear in the text (no repeated group, and
// where a repeat can give back characters the next alternative takes the whole run). They are written for Unicode,
// where \s is the property White_Space. PCRE2's \s also holds U+180E, so it is spelt out before compiling.
#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/error.h"

namespace lockstep {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr std::array kGpt2{kGpt2Words};
constexpr std::array kSmollm{R"(\p{N})"sv, kGpt2Words};
constexpr std::array kLlama3{
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)"sv};
constexpr std::array kQwen2{R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
                            R"(\s*[\r\n]+|\s+(?!\S)|\s+)"sv};
constexpr std::array kTekken{R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                             R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                             R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"sv};

// "default" is not here on purpose: it is what converters wrote when they did not know the tokenizer.
constexpr std::array<PreTokenizerRule, 8> kRules{{
    // name        patterns nfc    whole  bos
    {"gpt-2", kGpt2, false, false, false},
    {"llama-bpe", kLlama3, false, true, true},
    {"llama-v3", kLlama3, false, true, true},
    {"llama3", kLlama3, false, true, true},
    {"qwen2", kQwen2, true, false, false},
    {"smollm", kSmollm, false, false, false},
    {"starcoder", kSmollm, false, false, false},
    {"tekken", kTekken, false, true, true},
}};

// Backtracking steps of one match; far above what a pattern needs on 1 GiB, so reaching it is an error.
constexpr uint32_t kMatchLimit = 2'000'000'000;

// Replaces \s and \S by the characters of White_Space (Unicode 4.1 and later), inside and outside of [...].
std::string spell_out_white_space(std::string_view pattern) {
  constexpr std::string_view kWhiteSpace =
      R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char escaped = c == '\\' ? pattern[++i] : '\0';
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    if (escaped == 's') {
      out += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
    } else if (escaped == 'S') {
      out += fmt::format("[^{}]", kWhiteSpace);
    } else {
      out += c;
      if (escaped != '\0') out += escaped;
    }
  }
  return out;
}

[[noreturn]] void fail_pcre2(int error, std::string_view pattern) {
  std::array<PCRE2_UCHAR, 128> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  fail(ErrorKind::Internal, "the pre-tokenizer pattern {} cannot be used: {}", pattern,
       reinterpret_cast<const char*>(text.data()));
}

struct Pcre2Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
template <class T>
using Pcre2Ptr = std::unique_ptr<T, Pcre2Free>;

}  // namespace

const PreTokenizerRule* find_pre_tokenizer(std::string_view name) {
  const auto* const found = std::ranges::find(kRules, name, &PreTokenizerRule::name);
  return found == kRules.end() ? nullptr : found;
}

std::string known_pre_tokenizers() {
  std::string names;
  for (const PreTokenizerRule& rule : kRules) names += fmt::format("{}{}", names.empty() ? "" : ", ", rule.name);
  return names;
}

class PreTokenizer::Pattern {
 public:
  explicit Pattern(std::string_view pattern) : pattern_(pattern) {
    const std::string spelt = spell_out_white_space(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelt.data()), spelt.size(), PCRE2_UTF | PCRE2_UCP, &error,
                              &offset, nullptr));
    if (!code_) fail_pcre2(error, pattern);
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT, pcre2_match interprets
    limits_.reset(pcre2_match_context_create(nullptr));
    if (!limits_) throw std::bad_alloc();
    pcre2_set_match_limit(limits_.get(), kMatchLimit);
  }

  // Appends the pieces of text. The caller answers for valid UTF-8.
  void split(std::string_view text, pcre2_match_data* match, std::vector<std::string_view>& pieces) const {
    const PCRE2_SIZE* const span = pcre2_get_ovector_pointer(match);  // [begin, end) of the last match
    size_t begin = 0;
    while (begin < text.size()) {
      const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                                    PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, limits_.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) fail_pcre2(found, pattern_);
      if (span[0] > begin) pieces.push_back(text.substr(begin, span[0] - begin));
      pieces.push_back(text.substr(span[0], span[1] - span[0]));
      begin = span[1];
    }
    if (begin < text.size()) pieces.push_back(text.substr(begin));
  }

 private:
  std::string_view pattern_;
  Pcre2Ptr<pcre2_code> code_;
  Pcre2Ptr<pcre2_match_context> limits_;
};

PreTokenizer::PreTokenizer(const PreTokenizerRule& rule) {
  for (const std::string_view pattern : rule.patterns) patterns_.emplace_back(pattern);
}
PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  if (!text.empty()) pieces.push_back(text);
  const Pcre2Ptr<pcre2_match_data> match(pcre2_match_data_create(1, nullptr));
  if (!match) throw std::bad_alloc();
  for (const Pattern& pattern : patterns_) {
    std::vector<std::string_view> finer;
    for (const std::string_view piece : pieces) pattern.split(piece, match.get(), finer);
    pieces = std::move(finer);
  }
  return pieces;
}

}  // namespace lockstep
