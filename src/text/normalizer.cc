// The steps, each from one string to the next.
#include "text/normalizer.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace lockstep {
namespace {

using namespace normalize;

std::string without_marks(std::string_view text, bool (*is_dropped)(char32_t)) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (!is_dropped(c)) out += bytes;
  });
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](char32_t c, std::string_view) { append_lower_case(out, c); });
  return out;
}

std::string replaced(std::string_view text, const Replace& step) {
  std::vector<Pattern::Match> matches;
  step.pattern.find(text, matches);
  std::string out;
  out.reserve(text.size());
  size_t begin = 0;
  for (const auto& match : matches) {
    out.append(text, begin, match.begin - begin).append(step.content);
    begin = match.end;
  }
  return out.append(text, begin);
}

// Controls leave, every kind of white space becomes a space.
std::string cleaned(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (c == '\t' || c == '\n' || c == '\r' || (is_white_space(c) && !is_other(c))) {
      out += ' ';
    } else if (c != 0 && c != 0xFFFD && !is_other(c)) {
      out += bytes;
    }
  });
  return out;
}

std::string with_spaces_around_chinese(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    const bool chinese = is_chinese(c);
    if (chinese) out += ' ';
    out += bytes;
    if (chinese) out += ' ';
  });
  return out;
}

struct Apply {
  Normalizer::Text& t;
  const ByteAlphabet& alphabet;

  void operator()(NormalForm form) const { t.text = to_normal_form(t.text, form); }
  void operator()(const LowerCase&) const { t.text = lower_case(t.text); }
  void operator()(const StripAccents&) const { t.text = without_marks(t.text, is_mark); }
  void operator()(const Replace& step) const { t.text = replaced(t.text, step); }
  void operator()(const Prepend& step) const {
    if (!t.text.empty()) t.text.insert(0, step.text);
  }
  void operator()(const Strip& step) const {
    std::string_view rest = t.text;
    if (step.left) {
      while (!rest.empty() && is_white_space(first_character(rest).code)) {
        rest.remove_prefix(first_character(rest).length);
        t.cut_in_front = true;
      }
    }
    if (step.right) {
      while (!rest.empty() && is_white_space(last_character(rest).code))
        rest.remove_suffix(last_character(rest).length);
    }
    t.text = std::string(rest);
  }
  void operator()(const Bert& step) const {
    if (step.clean) t.text = cleaned(t.text);
    if (step.spaces_around_chinese) t.text = with_spaces_around_chinese(t.text);
    if (step.strip_accents) t.text = without_marks(to_normal_form(t.text, NormalForm::D), is_nonspacing_mark);
    if (step.lower_case) t.text = lower_case(t.text);
  }
  void operator()(const ByteLevel&) const {
    std::string out;
    out.reserve(2 * t.text.size());
    for (const char byte : t.text) out += alphabet.character(static_cast<uint8_t>(byte));
    t.text = std::move(out);
  }
};

// The most that is known of canonical forms is 7 bytes to 2 (U+0390), of compatible ones 4 bytes to 1.
struct Shrinking {
  std::optional<size_t> operator()(NormalForm) const { return 8; }
  std::optional<size_t> operator()(const LowerCase&) const { return 4; }
  std::optional<size_t> operator()(const StripAccents&) const { return std::nullopt; }
  std::optional<size_t> operator()(const Strip&) const { return std::nullopt; }
  std::optional<size_t> operator()(const Replace& step) const {
    if (!step.literal_bytes || step.content.empty()) return std::nullopt;
    return (*step.literal_bytes + step.content.size() - 1) / step.content.size();
  }
  std::optional<size_t> operator()(const Prepend&) const { return 1; }
  std::optional<size_t> operator()(const Bert&) const { return std::nullopt; }
  std::optional<size_t> operator()(const ByteLevel&) const { return 1; }
};

}  // namespace

Normalizer::Text Normalizer::apply(std::string_view text) const {
  Text result{std::string(text), false};
  for (const Step& step : steps_) std::visit(Apply{result, alphabet_}, step);
  return result;
}

std::optional<size_t> Normalizer::most_shrinking() const {
  size_t all = 1;
  for (const Step& step : steps_) {
    const auto one = std::visit(Shrinking(), step);
    if (!one || *one > size_t{1} << 20 || all > size_t{1} << 20) return std::nullopt;
    all *= *one;
  }
  return all;
}

}  // namespace lockstep
