// WordLevel.
#include "text/token_model.h"

namespace lockstep {

void WordLevelModel::encode(std::string_view word, ModelScratch& scratch, std::vector<TokenId>& out) const {
  scratch.lost.reset();
  const TokenId token = tokens_.find(word);
  out.push_back(token >= 0 && tokens_.kind(token) != TokenKind::Special ? token : unknown_);
}

}  // namespace lockstep
