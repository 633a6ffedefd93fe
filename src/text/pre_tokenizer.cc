// The steps. A cut is made in two: what matches in a word, then what the behaviour makes of matches.
#include "text/pre_tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "text/growth_limit.h"
#include "text/unicode.h"

namespace lockstep {
namespace {

using namespace pre_tokenize;

// A stretch of a word; together they cover it.
struct Part {
  size_t begin, end;
  bool matched;
};

// Joins or drops parts, and appends what remains. Only a match that does not follow a match joins its neighbour.
void append_by_behavior(const std::vector<Part>& parts, Behavior behavior, std::vector<Pattern::Match>& out) {
  const size_t first = out.size();
  const auto is_joined = [&](size_t i) {
    switch (behavior) {
      case Behavior::Contiguous:
        return i > 0 && parts[i].matched == parts[i - 1].matched;
      case Behavior::MergedWithPrevious:
        return i > 0 && parts[i].matched && !parts[i - 1].matched;
      case Behavior::MergedWithNext:  // of the part before
        return i > 0 && parts[i - 1].matched && !parts[i].matched;
      default:
        return false;
    }
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    if (behavior == Behavior::Removed && parts[i].matched) continue;
    if (is_joined(i) && out.size() > first) {
      out.back().end = parts[i].end;
    } else {
      out.push_back({parts[i].begin, parts[i].end});
    }
  }
}

// Cuts every word: parts_of(word, parts) says what is matched in it, with offsets in the word.
template <class PartsOf>
void cut(Words& words, Behavior behavior, PartsOf parts_of) {
  std::vector<Pattern::Match> finer;
  finer.reserve(words.text.size() / 4);
  std::vector<Part> parts;
  const std::string_view text = words.text;
  const size_t begin = words.ranges.empty() ? 0 : words.ranges.front().begin;
  for (const auto& word : words.ranges) {
    parts.clear();
    parts_of(text.substr(word.begin, word.end - word.begin), parts);
    for (Part& part : parts) part.begin += word.begin, part.end += word.begin;
    append_by_behavior(parts, behavior, finer);
  }
  std::erase_if(finer, [](const auto& word) { return word.begin == word.end; });
  words.ranges = std::move(finer);
  if (words.ranges.empty() || words.ranges.front().begin != begin) words.first_begins_text = false;
}

// Consecutive characters of equal class() are one part, matched as is_matched(class) says; `single`: each is one.
template <class ClassOf>
void parts_by_character(std::string_view word, std::vector<Part>& parts, bool single, ClassOf is_matched) {
  size_t at = 0;
  for_each_character(word, [&](char32_t c, std::string_view bytes) {
    const bool matched = is_matched(c);
    if (!parts.empty() && parts.back().matched == matched && !(single && matched)) {
      parts.back().end = at + bytes.size();
    } else {
      parts.push_back({at, at + bytes.size(), matched});
    }
    at += bytes.size();
  });
}

// Makes a new text of the words: append(word, index) adds the word as it shall be.
template <class Append>
void rewrite(Words& words, Append append) {
  std::string text;
  text.reserve(words.text.size() + words.text.size() / 4);
  for (size_t i = 0; i < words.ranges.size(); ++i) {
    auto& word = words.ranges[i];
    const size_t begin = text.size();
    append(std::string_view(words.text).substr(word.begin, word.end - word.begin), i, text);
    word = {begin, text.size()};
  }
  words.text = std::move(text);
}

struct Apply {
  Words& words;
  const ByteAlphabet& alphabet;

  void operator()(const Split& step) const {
    std::vector<Pattern::Match> matches;
    cut(words, step.behavior, [&](std::string_view word, std::vector<Part>& parts) {
      matches.clear();
      step.pattern.find(word, matches);
      size_t end = 0;
      for (const auto& match : matches) {
        if (match.begin > end) parts.push_back({end, match.begin, step.invert});
        parts.push_back({match.begin, match.end, !step.invert});
        end = match.end;
      }
      if (end < word.size()) parts.push_back({end, word.size(), step.invert});
    });
  }

  void operator()(const SplitAtClass& step) const {
    cut(words, step.behavior, [&](std::string_view word, std::vector<Part>& parts) {
      parts_by_character(word, parts, true, [&](char32_t c) {
        switch (step.members) {
          case Class::WhiteSpace:
            return is_white_space(c);
          case Class::Numeric:
            return is_numeric(c);
          case Class::Punctuation:
            return is_punctuation(c);
          case Class::Delimiter:
            return c == step.delimiter;
        }
        return false;
      });
    });
  }

  void operator()(const WordsAndSymbols&) const {
    const auto by = [&](bool (*is_matched)(char32_t), Behavior behavior) {
      cut(words, behavior,
          [&](std::string_view word, std::vector<Part>& parts) { parts_by_character(word, parts, false, is_matched); });
    };
    // Joiners are word characters, so no white space is.
    by(is_white_space, Behavior::Removed);
    by(is_word, Behavior::Isolated);
  }

  void operator()(const Scripts&) const {
    cut(words, Behavior::Removed, [&](std::string_view word, std::vector<Part>& parts) {
      std::optional<int32_t> last;
      parts.push_back({0, 0, true});  // what stands before the first script
      for_each_character(word, [&](char32_t c, std::string_view bytes) {
        const size_t at = parts.back().end;
        const auto script = script_of(c);
        if (script && script != last) {
          parts.push_back({at, at, false});
          last = script;
        }
        parts.back().end += bytes.size();
      });
    });
  }

  void operator()(const FixedLength& step) const {
    cut(words, Behavior::Isolated, [&](std::string_view word, std::vector<Part>& parts) {
      size_t room = 0;  // characters
      for_each_character(word, [&](char32_t, std::string_view bytes) {
        if (room == 0) {
          const size_t at = parts.empty() ? 0 : parts.back().end;
          parts.push_back({at, at, false});
          room = step.characters;
        }
        parts.back().end += bytes.size();
        --room;
      });
    });
  }

  void operator()(const PrefixSpace&) const {
    rewrite(words, [](std::string_view word, size_t, std::string& text) {
      if (!word.starts_with(' ')) text += ' ';
      text += word;
    });
  }

  void operator()(const Metaspace& step) const {
    rewrite(words, [&](std::string_view word, size_t index, std::string& text) {
      const bool wanted =
          step.prepend == Prepend::Always || (step.prepend == Prepend::First && index == 0 && words.first_begins_text);
      if (wanted && !word.starts_with(' ') && !word.starts_with(step.replacement)) text += step.replacement;
      for (const char byte : word) {
        if (byte == ' ') {
          text += step.replacement;
        } else {
          text += byte;
        }
      }
    });
    if (!step.split) return;
    (*this)(Split{Pattern::literal(step.replacement), Behavior::MergedWithNext, false});
  }

  void operator()(const CutBeforeMark& step) const {
    cut(words, Behavior::Isolated, [&](std::string_view word, std::vector<Part>& parts) {
      size_t begin = 0;
      for (size_t at = word.find(step.mark, 1); at != word.npos; at = word.find(step.mark, at + 1)) {
        const char32_t before = last_character(word.substr(begin, at - begin)).code;
        if (std::ranges::binary_search(step.joined, before)) continue;
        parts.push_back({begin, at, false});
        begin = at;
      }
      parts.push_back({begin, word.size(), false});
    });
  }

  void operator()(const ByteLevel&) const {
    rewrite(words, [&](std::string_view word, size_t, std::string& text) {
      for (const char byte : word) text += alphabet.character(static_cast<uint8_t>(byte));
    });
  }
};

struct DropsText {
  bool operator()(const Split& step) const { return step.behavior == Behavior::Removed; }
  bool operator()(const SplitAtClass& step) const { return step.behavior == Behavior::Removed; }
  bool operator()(const WordsAndSymbols&) const { return true; }
  bool operator()(const Scripts&) const { return true; }
  template <class Other>
  bool operator()(const Other&) const {
    return false;
  }
};

}  // namespace

void PreTokenizer::apply(Words& words) const {
  const GrowthLimit limit(words.text.size());
  for (const Step& step : steps_) {
    std::visit(Apply{words, alphabet_}, step);
    limit.check(words.text.size());
  }
}

bool PreTokenizer::drops_text() const {
  return std::ranges::any_of(steps_, [](const Step& step) { return std::visit(DropsText(), step); });
}

}  // namespace lockstep
