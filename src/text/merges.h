// Byte pair encoding of one piece of text: beginning with one token a byte, the neighbours whose merge ranks best are
// joined, again and again, until no merge applies.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/text.h"

namespace lockstep {

struct Merge {
  TokenId left, right, result;
};

// Immutable; encode() may be called by several threads, each with its own Scratch.
class MergeModel {
 public:
  // byte_tokens: the token of each byte, -1 where the vocabulary has none. merges: best first, no pair twice.
  MergeModel(const std::array<TokenId, 256>& byte_tokens, std::vector<Merge> merges);

  class Scratch;
  // Appends the tokens of the piece, which has less than 2^32 bytes. A byte without a token is left out before merging.
  // The work is at most length x log(length).
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  TokenId byte_token(uint8_t byte) const { return byte_tokens_[byte]; }

 private:
  static constexpr uint32_t kNoMerge = UINT32_MAX;
  struct Slot {
    uint64_t pair = 0;
    uint32_t rank = kNoMerge;  // kNoMerge: the slot is free
  };

  static uint64_t pair(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t home(uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15u) >> shift_; }
  uint32_t rank(TokenId left, TokenId right) const;

  std::array<TokenId, 256> byte_tokens_;
  std::vector<Merge> merges_;  // [rank]
  std::vector<Slot> slots_;    // open addressing, at most half full; the number is a power of two
  int shift_;                  // 64 - log2(slots)
};

// Working memory, kept from piece to piece so that encode() seldom allocates.
class MergeModel::Scratch {
  friend class MergeModel;
  struct Symbol {
    TokenId token;  // -1: joined to a symbol on its left
    uint32_t previous, next;
  };
  std::vector<Symbol> symbols_;  // one a byte at first: a linked list in place
  std::vector<uint64_t> queue_;  // heap of rank << 32 | symbol: best rank first, then leftmost
};

}  // namespace lockstep
