// WordPiece.
#include "text/token_model.h"
#include "text/unicode.h"

namespace lockstep {

WordPieceModel::WordPieceModel(const TokenTable& tokens, TokenId unknown, std::string_view continuing,
                               size_t most_characters)
    : trie_(tokens),
      continuing_(trie_.walk(Trie::kRoot, continuing)),
      unknown_(unknown),
      most_characters_(most_characters) {}

// A word that cannot be made of tokens, and one of too many characters, is unknown as a whole.
void WordPieceModel::encode(std::string_view word, ModelScratch& scratch, std::vector<TokenId>& out) const {
  scratch.lost.reset();
  const size_t begin_of_word = out.size();
  size_t characters = 0;
  for_each_character(word, [&](char32_t, std::string_view) { ++characters; });
  bool known = characters <= most_characters_;
  for (size_t begin = 0; known && begin < word.size();) {
    TokenId longest = -1;
    size_t end = begin;
    auto node = begin == 0 ? std::optional(Trie::kRoot) : continuing_;
    for (size_t i = begin; node && i < word.size(); ++i) {
      node = trie_.child(*node, static_cast<uint8_t>(word[i]));
      if (node && trie_.token(*node) >= 0) longest = trie_.token(*node), end = i + 1;
    }
    known = longest >= 0;
    out.push_back(longest);
    begin = end;
  }
  if (known) return;
  out.resize(begin_of_word);
  out.push_back(unknown_);
}

}  // namespace lockstep
