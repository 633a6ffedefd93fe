// The characters that stand before a mark in some token.
#include "text/harmless_cuts.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/utf8.h"
#include "text/unicode.h"

namespace lockstep {

std::optional<pre_tokenize::CutBeforeMark> harmless_cut(const TokenTable& tokens, std::optional<TokenId> unknown) {
  constexpr std::string_view kMark = "\xE2\x96\x81";
  if (tokens.find(kMark) < 0) return std::nullopt;
  std::set<char32_t> joined;
  for (TokenId id = 0; id < tokens.size(); ++id) {
    const std::string_view text = tokens.text(id);
    for (size_t at = text.find(kMark, 1); at != text.npos; at = text.find(kMark, at + 1)) {
      if (!is_utf8(text)) return std::nullopt;
      joined.insert(last_character(text.substr(0, at)).code);
    }
  }
  if (joined.contains('>') || (unknown && joined.contains(last_character(tokens.text(*unknown)).code)))
    return std::nullopt;
  return pre_tokenize::CutBeforeMark{std::string(kMark), {joined.begin(), joined.end()}};
}

}  // namespace lockstep
