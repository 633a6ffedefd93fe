// The tokens of a vocabulary: the text of every id, and the id of every text that a model may produce.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/text.h"

namespace lockstep {

enum class TokenKind : uint8_t {
  Missing,      // no token has this id
  Normal,       // produced by the model
  UserDefined,  // found in any text before the model sees it
  Special,      // found only by SpecialTokens::Parse; hidden in output unless asked for
};

// About 20 bytes a token beside its text.
class TokenTable {
 public:
  // The id is free and not negative. The model finds the token by its text.
  void insert(std::string_view text, TokenId id, TokenKind kind = TokenKind::Normal);
  // A token that the model does not know: only added tokens lead to it. It is literal.
  void insert_outside_model(std::string_view text, TokenId id, TokenKind kind);
  // Its text stands for itself, whatever alphabet the model's tokens are written in.
  bool is_literal(TokenId id) const { return entries_[static_cast<size_t>(id)].literal; }
  void set_literal(TokenId id) { entries_[static_cast<size_t>(id)].literal = true; }
  void set_kind(TokenId id, TokenKind kind) { entries_[static_cast<size_t>(id)].kind = kind; }

  TokenId size() const { return static_cast<TokenId>(entries_.size()); }  // the largest id, and one
  bool contains(int64_t id) const {
    return id >= 0 && id < size() && kind(static_cast<TokenId>(id)) != TokenKind::Missing;
  }
  TokenKind kind(TokenId id) const { return entries_[static_cast<size_t>(id)].kind; }
  std::string_view text(TokenId id) const {
    const Entry& entry = entries_[static_cast<size_t>(id)];
    return std::string_view(texts_).substr(entry.begin, entry.length);
  }
  // -1 when the model has no such token.
  TokenId find(std::string_view text) const;
  size_t longest() const { return longest_; }  // bytes

 private:
  struct Entry {
    uint32_t begin = 0, length = 0;  // in texts_
    TokenKind kind = TokenKind::Missing;
    bool literal = false;
  };
  void append(std::string_view text, TokenId id, TokenKind kind, bool literal);
  void place(TokenId id);
  void grow();

  std::string texts_;
  std::vector<Entry> entries_;  // [id]
  std::vector<TokenId> slots_;  // by hash of the text, open addressing, at most half full; -1 is free
  size_t placed_ = 0;
  size_t longest_ = 0;
};

}  // namespace lockstep
