// Where a text may be cut before BPE without changing its tokens.
#pragma once

#include <optional>

#include "text/pre_tokenizer.h"
#include "text/token_table.h"

namespace lockstep {

// SentencePiece vocabularies take a whole text as one word, in which U+2581 stands for every space. Merges never join
// two characters that no token has side by side, so a text may be cut before a mark unless some token has what stands
// there: then its words are short, and the same words come again and again. Nothing when the vocabulary has no mark, or
// when a token may join one to what stands for other characters (the tokens of bytes, and `unknown`).
std::optional<pre_tokenize::CutBeforeMark> harmless_cut(const TokenTable& tokens, std::optional<TokenId> unknown);

}  // namespace lockstep
