// One string for all texts, and a hash table of ids.
#include "text/token_table.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace lockstep {

void TokenTable::append(std::string_view text, TokenId id, TokenKind kind, bool literal) {
  const auto index = static_cast<size_t>(id);
  if (index >= entries_.size()) entries_.resize(index + 1);
  entries_[index] = {static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(text.size()), kind, literal};
  texts_ += text;
  longest_ = std::max(longest_, text.size());
}

void TokenTable::insert_outside_model(std::string_view text, TokenId id, TokenKind kind) {
  append(text, id, kind, true);
}

void TokenTable::insert(std::string_view text, TokenId id, TokenKind kind) {
  append(text, id, kind, false);
  if (2 * (placed_ + 1) > slots_.size()) grow();
  place(id);
  ++placed_;
}

TokenId TokenTable::find(std::string_view text) const {
  if (slots_.empty()) return -1;
  size_t i = std::hash<std::string_view>()(text) & (slots_.size() - 1);
  while (slots_[i] >= 0 && this->text(slots_[i]) != text) i = (i + 1) & (slots_.size() - 1);
  return slots_[i];
}

void TokenTable::place(TokenId id) {
  size_t i = std::hash<std::string_view>()(text(id)) & (slots_.size() - 1);
  while (slots_[i] >= 0) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = id;
}

void TokenTable::grow() {
  const std::vector<TokenId> old =
      std::exchange(slots_, std::vector<TokenId>(std::max<size_t>(16, 2 * slots_.size()), -1));
  for (const TokenId id : old) {
    if (id >= 0) place(id);
  }
}

}  // namespace lockstep
