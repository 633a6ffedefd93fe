// The part of a tokenizer that turns one word into tokens: BPE, Unigram, WordPiece or WordLevel.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/text.h"
#include "text/token_table.h"
#include "text/trie.h"

namespace lockstep {

// Working memory of one thread, kept from word to word so that encode() seldom allocates.
struct ModelScratch {
  struct Symbol {
    TokenId token;  // -1: joined to a symbol on its left
    uint32_t previous, next;
  };
  std::vector<Symbol> symbols;  // of BPE, one a character at first: a linked list in place
  std::vector<uint64_t> queue;  // heap of rank << 32 | symbol: best rank first, then leftmost
  std::string letter;           // a character as the vocabulary has it
  struct Node {
    double score;    // of the best way to here
    TokenId token;   // that ends here on it
    uint32_t begin;  // of the token; UINT32_MAX: no way leads here
  };
  std::vector<Node> nodes;  // of Unigram, one a byte
  std::vector<TokenId> reversed;
  std::optional<size_t> lost;  // offset of the first character left out, in the word given last
};

// Immutable; several threads may encode, each with its own scratch. The tokens a model makes are never special, unless
// single characters or merges make them.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of a word of valid UTF-8, which has less than 2^32 bytes and is not empty; sets scratch.lost
  // where the vocabulary has nothing for a character, not even a token for what is unknown.
  virtual void encode(std::string_view word, ModelScratch& scratch, std::vector<TokenId>& out) const = 0;
  // The token that stands for a byte that is no UTF-8; -1 when there is none.
  virtual TokenId byte_token(uint8_t byte) const = 0;
  // A token stands for no more than its text: none stands for what is unknown.
  virtual bool is_bounded() const = 0;
};

// The token <0x00> to <0xFF> of each byte, -1 where there is none.
std::array<TokenId, 256> byte_fallback_tokens(const TokenTable& tokens);
// The bytes of a character as tokens, or false when one of them has none.
bool append_bytes(std::string_view text, const std::array<TokenId, 256>& byte_tokens, std::vector<TokenId>& out);

// The whole word is a token, or unknown.
class WordLevelModel final : public TokenModel {
 public:
  // `tokens` must outlive the model.
  WordLevelModel(const TokenTable& tokens, TokenId unknown) : tokens_(tokens), unknown_(unknown) {}
  void encode(std::string_view word, ModelScratch& scratch, std::vector<TokenId>& out) const override;
  TokenId byte_token(uint8_t) const override { return -1; }
  bool is_bounded() const override { return false; }

 private:
  const TokenTable& tokens_;
  const TokenId unknown_;
};

// Greedy: from the left, the longest token that the rest of the word begins with.
class WordPieceModel final : public TokenModel {
 public:
  // `continuing`: what the tokens begin with that do not begin a word. `tokens` must outlive the model.
  WordPieceModel(const TokenTable& tokens, TokenId unknown, std::string_view continuing, size_t most_characters);
  void encode(std::string_view word, ModelScratch& scratch, std::vector<TokenId>& out) const override;
  TokenId byte_token(uint8_t) const override { return -1; }
  bool is_bounded() const override { return false; }

 private:
  const Trie trie_;
  const std::optional<Trie::Node> continuing_;  // where it leads
  const TokenId unknown_;
  const size_t most_characters_;
};

// The way through the word whose tokens have the largest sum of scores.
class UnigramModel final : public TokenModel {
 public:
  // scores: [id], of the tokens that have one. `tokens` must outlive the model.
  UnigramModel(const TokenTable& tokens, std::vector<double> scores, std::optional<TokenId> unknown,
               bool byte_fallback);
  void encode(std::string_view word, ModelScratch& scratch, std::vector<TokenId>& out) const override;
  TokenId byte_token(uint8_t byte) const override { return byte_tokens_[byte]; }
  bool is_bounded() const override { return !unknown_ || every_byte_; }

 private:
  void append_unknown(std::string_view run, std::vector<TokenId>& out) const;

  const Trie trie_;
  const std::vector<double> scores_;
  const std::optional<TokenId> unknown_;
  std::array<TokenId, 256> byte_tokens_;
  bool every_byte_;
  double unknown_score_;
};

}  // namespace lockstep
