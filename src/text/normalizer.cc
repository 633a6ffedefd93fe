// The steps, each from one string to the next.
#include "text/normalizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace lockstep {
namespace {

using namespace normalize;
using Text = Normalizer::Text;

constexpr size_t kMostBytes = size_t{1} << 30;  // as to_normal_form() may take

void check_size(const std::string& text) {
  if (text.size() <= kMostBytes) return;
  fail(ErrorKind::DoesNotFit, "text that has more than {} bytes when it is normalized cannot be tokenized", kMostBytes);
}

// Calls write(out, code, bytes) for every character; what it appends stands for that character.
template <class Write>
void rewrite(Text& t, Write write) {
  std::string out;
  out.reserve(t.text.size());
  size_t front = 0, at = 0;
  for_each_character(t.text, [&](char32_t c, std::string_view bytes) {
    write(out, c, bytes);
    if (at < t.front) front = out.size();
    at += bytes.size();
  });
  t = {std::move(out), front};
}

void drop(Text& t, bool (*is_dropped)(char32_t)) {
  rewrite(t, [&](std::string& out, char32_t c, std::string_view bytes) {
    if (!is_dropped(c)) out += bytes;
  });
}

void lower_case(Text& t) {
  rewrite(t, [](std::string& out, char32_t c, std::string_view) { append_lower_case(out, c); });
}

// The front by itself says how long its normal form is, and does not end inside a character.
void normal_form(Text& t, NormalForm form) {
  const size_t front = to_normal_form(std::string_view(t.text).substr(0, t.front), form).size();
  t.text = to_normal_form(t.text, form);
  t.front = std::min(front, t.text.size());
  while (t.front < t.text.size() && (static_cast<unsigned char>(t.text[t.front]) & 0xC0) == 0x80) ++t.front;
}

// What is put in a match's place counts as the last character of the match.
void replace(Text& t, const Replace& step) {
  std::vector<Pattern::Match> matches;
  step.pattern.find(t.text, matches);
  std::string out;
  out.reserve(t.text.size());
  size_t front = 0, begin = 0;
  const auto keep = [&](size_t end) {
    if (begin < t.front) front = out.size() + std::min(end, t.front) - begin;
    out.append(t.text, begin, end - begin);
  };
  for (const auto& match : matches) {
    keep(match.begin);
    out.append(step.content);
    if (match.end <= t.front) front = out.size();
    begin = match.end;
  }
  keep(t.text.size());
  t = {std::move(out), front};
}

// Controls leave, every kind of white space becomes a space.
void clean(Text& t) {
  rewrite(t, [](std::string& out, char32_t c, std::string_view bytes) {
    if (c == '\t' || c == '\n' || c == '\r' || (is_white_space(c) && !is_other(c))) {
      out += ' ';
    } else if (c != 0 && c != 0xFFFD && !is_other(c)) {
      out += bytes;
    }
  });
}

void put_spaces_around_chinese(Text& t) {
  rewrite(t, [](std::string& out, char32_t c, std::string_view bytes) {
    const bool chinese = is_chinese(c);
    if (chinese) out += ' ';
    out += bytes;
    if (chinese) out += ' ';
  });
}

bool nmt_drops(char32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}
bool is_nmt_space(char32_t c) {
  constexpr std::array<char32_t, 9> kSpaces{'\t', '\n', '\f', '\r', 0x1680, 0x2028, 0x2029, 0x2581, 0xFEFF};
  return std::ranges::find(kSpaces, c) != kSpaces.end() || (c >= 0x200B && c <= 0x200F) || c == 0xFFFD;
}

// A Precompiled step. What is written for a piece counts as its characters one by one, more of it as the last of them;
// what a piece has more goes to what was written last. So a piece that vanishes before anything is written goes
// nowhere, and all that follows counts as earlier than it is.
class Replacing {
 public:
  Replacing(const Text& t, const PrecompiledCharsmap& map) : t_(t), map_(map) { out_.reserve(t.text.size()); }

  Text run() {
    for (std::string_view rest = t_.text; !rest.empty();) {
      const size_t bytes = first_grapheme(rest);
      const std::string_view cluster = rest.substr(0, bytes);
      if (bytes >= kWholeBelow || !put_replacement(cluster)) {
        for_each_character(cluster, [&](char32_t, std::string_view c) {
          if (!put_replacement(c)) put(c, c);
        });
      }
      check_size(out_);
      rest.remove_prefix(bytes);
    }
    return {std::move(out_), front_};
  }

 private:
  static constexpr size_t kWholeBelow = 6;

  bool put_replacement(std::string_view piece) {
    const auto found = map_.replacement(piece);
    if (found) put(*found, piece);
    return found.has_value();
  }

  void put(std::string_view written, std::string_view piece) {
    for_each_character(written, [&](char32_t, std::string_view c) {
      last_ = out_.size();
      last_is_more_ = piece.empty();
      out_ += c;
      if (last_is_more_ ? counted_ <= t_.front : counted_ < t_.front) front_ = out_.size();
      if (!piece.empty()) count_character_of(piece);
    });
    if (piece.empty() || out_.empty()) return;
    if (last_is_more_ && counted_ >= t_.front) front_ = std::min(front_, last_);
    last_is_more_ = false;
    while (!piece.empty()) count_character_of(piece);
  }

  void count_character_of(std::string_view& piece) {
    piece.remove_prefix(first_character(piece).length);
    counted_ += first_character(std::string_view(t_.text).substr(counted_)).length;
  }

  const Text& t_;
  const PrecompiledCharsmap& map_;
  std::string out_;
  size_t front_ = 0, last_ = 0;  // bytes of out_; before its last character
  bool last_is_more_ = false;    // than its piece has
  size_t counted_ = 0;           // bytes of the text that stand for something written
};

struct Apply {
  Text& t;
  const ByteAlphabet& alphabet;

  void operator()(NormalForm form) const { normal_form(t, form); }
  void operator()(const LowerCase&) const { lower_case(t); }
  void operator()(const StripAccents&) const { drop(t, is_mark); }
  void operator()(const Replace& step) const { replace(t, step); }
  void operator()(const Prepend& step) const {
    if (t.text.empty()) return;
    t.text.insert(0, step.text);
    if (t.front > 0) t.front += step.text.size();
  }
  void operator()(const Strip& step) const {
    std::string_view rest = t.text;
    if (step.left) {
      while (!rest.empty() && is_white_space(first_character(rest).code))
        rest.remove_prefix(first_character(rest).length);
      t.front -= std::min(t.front, t.text.size() - rest.size());
    }
    if (step.right) {
      while (!rest.empty() && is_white_space(last_character(rest).code))
        rest.remove_suffix(last_character(rest).length);
    }
    t.text = std::string(rest);
  }
  void operator()(const Bert& step) const {
    if (step.clean) clean(t);
    if (step.spaces_around_chinese) put_spaces_around_chinese(t);
    if (step.strip_accents) {
      normal_form(t, NormalForm::D);
      drop(t, is_nonspacing_mark);
    }
    if (step.lower_case) lower_case(t);
  }
  void operator()(const ByteLevel&) const {
    rewrite(t, [&](std::string& out, char32_t, std::string_view bytes) {
      for (const char byte : bytes) out += alphabet.character(static_cast<uint8_t>(byte));
    });
  }
  void operator()(const Nmt&) const {
    rewrite(t, [](std::string& out, char32_t c, std::string_view bytes) {
      if (!nmt_drops(c)) out += is_nmt_space(c) ? " " : bytes;
    });
  }
  void operator()(const Precompiled& map) const { t = Replacing(t, map).run(); }
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
  std::optional<size_t> operator()(const Nmt&) const { return std::nullopt; }
  std::optional<size_t> operator()(const Precompiled& map) const {
    return map.drops_text() ? std::nullopt : std::optional<size_t>(5);  // a cluster, one byte
  }
};

}  // namespace

Normalizer::Text Normalizer::apply(std::string_view text) const {
  Text result{std::string(text), text.empty() ? 0 : first_character(text).length};
  for (const Step& step : steps_) {
    std::visit(Apply{result, alphabet_}, step);
    check_size(result.text);
  }
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
