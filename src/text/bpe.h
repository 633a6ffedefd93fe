// Byte-level BPE, as published by GPT-2: special tokens are cut out, text is normalised and cut into pieces, and the
// bytes of each piece are merged.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/merges.h"
#include "text/pre_tokenizer.h"
#include "text/special_tokens.h"
#include "text/text.h"

namespace lockstep {

class BpeTokenizer final : public Tokenizer {
 public:
  enum class Kind : uint8_t {
    Normal,       // reached by merges only
    Control,      // special: found in text by SpecialTokens::Parse, hidden unless asked for
    UserDefined,  // found in any text, shown like a normal token
  };
  struct Token {
    std::string bytes;
    Kind kind;
  };
  // Already checked: ids lie in the vocabulary, no token is empty, no two tokens of one kind are the same.
  struct Parts {
    const PreTokenizerRule* rule = nullptr;
    std::vector<Token> tokens;
    std::array<TokenId, 256> byte_tokens;  // -1 where there is none
    std::vector<Merge> merges;
    std::optional<TokenId> bos;
    bool add_bos = false;
    std::vector<TokenId> stop_tokens;
  };

  explicit BpeTokenizer(Parts parts);

  std::vector<TokenId> encode(std::string_view text, SpecialTokens special) const override;
  std::optional<LostByte> first_lost_byte(std::string_view text, SpecialTokens special) const override;
  size_t most_bytes_per_token() const override;
  std::string decode(std::span<const TokenId> tokens, bool show_special) const override;
  std::string piece(TokenId token) const override { return at(token).bytes; }
  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }
  std::string_view description() const override { return description_; }
  bool is_special(TokenId token) const override { return at(token).kind == Kind::Control; }
  std::optional<TokenId> bos() const override { return bos_; }
  bool add_bos() const override { return add_bos_; }
  std::span<const TokenId> stop_tokens() const override { return stop_tokens_; }

 private:
  struct Encoding;  // what one call of encode() works on
  const Token& at(TokenId token) const;
  bool has_token(char byte) const { return merges_.byte_token(static_cast<uint8_t>(byte)) >= 0; }
  Encoding encode_all(std::string_view text, SpecialTokens special) const;
  void encode_bytes(std::string_view bytes, size_t offset, Encoding& encoding) const;      // no special tokens in it
  void encode_characters(std::string_view text, size_t offset, Encoding& encoding) const;  // valid UTF-8
  // `offset`: of the bytes in the whole text.
  void note_lost(std::string_view bytes, size_t offset, Encoding& encoding) const;

  const PreTokenizerRule* rule_;
  std::string description_;
  std::vector<Token> tokens_;
  SpecialTokenFinder special_tokens_;
  PreTokenizer pre_tokenizer_;
  MergeModel merges_;
  std::unordered_map<std::string_view, TokenId> whole_pieces_;  // views of tokens_; empty unless the rule asks for it
  std::optional<TokenId> bos_;
  bool add_bos_;
  std::vector<TokenId> stop_tokens_;
  bool every_byte_has_token_;
  size_t longest_token_;  // bytes
};

}  // namespace lockstep
