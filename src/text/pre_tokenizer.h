// Cutting a text into words, which tokens never cross ("pre-tokenization"): a list of steps, as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/pattern.h"

namespace lockstep {

// The words of a text, in order, none empty. Words need not cover it.
struct Words {
  std::string text;
  std::vector<Pattern::Match> ranges;  // in text
  bool first_begins_text = false;      // the first word begins where the caller's text does
};

namespace pre_tokenize {

// The words of GPT-2, which a ByteLevel step cuts into.
inline constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// What happens to the matches of a pattern.
enum class Behavior : uint8_t { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

struct Split {
  Pattern pattern;
  Behavior behavior;
  bool invert;  // what lies between matches is what counts as matched
};
// Every character of the class is a match.
enum class Class : uint8_t { WhiteSpace, Numeric, Punctuation, Delimiter };
struct SplitAtClass {
  Class members;
  Behavior behavior;
  char32_t delimiter = 0;  // of Class::Delimiter
};
struct WordsAndSymbols {};  // runs of word characters and runs of what is neither word nor white space
struct Scripts {};          // cuts where script_of() changes; what stands before the first script is left out
struct PrefixSpace {};      // a space before every word that does not begin with one
struct FixedLength {
  size_t characters;  // of every word but the last; above 0
};
enum class Prepend : uint8_t { Never, First, Always };
struct Metaspace {
  std::string replacement;  // one character, which stands for a space
  Prepend prepend;
  bool split;  // before every replacement
};
struct ByteLevel {};  // every byte as its character of the byte alphabet
// Before every mark, but behind one of `joined`: cuts where no token lies across, which only saves time.
struct CutBeforeMark {
  std::string mark;
  std::vector<char32_t> joined;  // sorted
};
using Step = std::variant<Split, SplitAtClass, WordsAndSymbols, Scripts, FixedLength, PrefixSpace, Metaspace, ByteLevel,
                          CutBeforeMark>;

}  // namespace pre_tokenize

class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<pre_tokenize::Step> steps) : steps_(std::move(steps)) {}

  // words.text is valid UTF-8; at first it is one word.
  void apply(Words& words) const;
  // Text may be left out between words.
  bool drops_text() const;

 private:
  std::vector<pre_tokenize::Step> steps_;
  ByteAlphabet alphabet_;
};

}  // namespace lockstep
