// Regular expressions of tokenizer files, run by PCRE2 in time linear in the text, whatever the expression is.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// A pattern in the syntax of Oniguruma, which Hugging Face tokenizers uses, or a plain string. Immutable; several
// threads may search at once.
class Pattern {
 public:
  struct Match {
    size_t begin, end;  // bytes
  };

  // Throws Error(Unsupported) for a pattern that PCRE2 cannot read or reads differently; `where` begins the message.
  static Pattern regex(std::string_view pattern, std::string_view where);
  static Pattern literal(std::string_view text);
  ~Pattern();
  Pattern(Pattern&&) noexcept;

  // Appends the matches in valid UTF-8, from left to right; they do not overlap, and may be empty; an empty
  // text has none. Throws Error(Unsupported) when the pattern costs too much: more than about a hundred steps a byte.
  void find(std::string_view text, std::vector<Match>& matches) const;

 private:
  struct Compiled;
  Pattern();
  std::string source_;                  // of a literal: the text itself
  std::unique_ptr<Compiled> compiled_;  // null: a literal
};

}  // namespace lockstep
