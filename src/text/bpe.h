// Byte pair encoding of one word: beginning with a token a character, the neighbours whose merge ranks best are joined,
// again and again, until no merge applies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/token_model.h"

namespace lockstep {

// What joining two tokens gives, and how early it is done.
class MergeTable {
 public:
  static constexpr uint32_t kNoMerge = UINT32_MAX;
  struct Merge {
    uint64_t pair = 0;
    uint32_t rank = kNoMerge;  // smallest first; several merges may share one. kNoMerge: the slot is free
    TokenId result = -1;
  };

  // Room for so many without growing.
  explicit MergeTable(size_t merges = 0);
  // False when the pair is already there. The rank is below kNoMerge.
  bool insert(TokenId left, TokenId right, uint32_t rank, TokenId result);
  // .rank is kNoMerge when there is none.
  const Merge& find(TokenId left, TokenId right) const {
    const uint64_t key = pair(left, right);
    size_t i = home(key);
    while (slots_[i].rank != kNoMerge && slots_[i].pair != key) i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }

 private:
  static uint64_t pair(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t home(uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15u) >> shift_; }
  void grow();

  std::vector<Merge> slots_;  // open addressing, at most half full; the number is a power of two
  size_t size_ = 0;
  int shift_;  // 64 - log2(slots)
};

class BpeModel final : public TokenModel {
 public:
  struct Options {
    std::optional<TokenId> unknown;
    bool fuse_unknown = false;              // a run of unknown characters is one token
    bool byte_fallback = false;             // a character without a token is the tokens of its bytes
    bool ignore_merges = false;             // a word that is a token is taken as it is, whatever the merges say
    bool byte_level = false;                // words are bytes, and the vocabulary has them in the byte alphabet
    std::string continuing_subword_prefix;  // before every character but the first
    std::string end_of_word_suffix;         // behind the last
  };
  // `tokens` must outlive the model.
  BpeModel(const TokenTable& tokens, MergeTable merges, Options options);

  // The work is at most length x log(length).
  void encode(std::string_view word, ModelScratch& scratch, std::vector<TokenId>& out) const override;
  TokenId byte_token(uint8_t byte) const override { return byte_tokens_[byte]; }
  bool is_bounded() const override;

 private:
  void begin_with_bytes(std::string_view word, ModelScratch& scratch) const;
  void begin_with_characters(std::string_view word, ModelScratch& scratch) const;
  void merge_all(ModelScratch& scratch) const;

  const TokenTable& tokens_;
  const MergeTable merges_;
  const Options options_;
  const bool plain_bytes_;  // byte level, with nothing but a token a byte to begin with
  const ByteAlphabet alphabet_;
  std::array<TokenId, 256> byte_tokens_;  // of the byte alphabet or of the fallback; -1 where there is none
};

}  // namespace lockstep
