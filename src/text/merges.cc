// The merge loop and the table of pairs.
#include "text/merges.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace lockstep {

MergeModel::MergeModel(const std::array<TokenId, 256>& byte_tokens, std::vector<Merge> merges)
    : byte_tokens_(byte_tokens), merges_(std::move(merges)), slots_(std::bit_ceil(2 * merges_.size() + 2)) {
  shift_ = 64 - std::countr_zero(slots_.size());
  for (size_t rank = 0; rank < merges_.size(); ++rank) {
    const uint64_t key = pair(merges_[rank].left, merges_[rank].right);
    size_t i = home(key);
    while (slots_[i].rank != kNoMerge) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = {key, static_cast<uint32_t>(rank)};
  }
}

uint32_t MergeModel::rank(TokenId left, TokenId right) const {
  const uint64_t key = pair(left, right);
  size_t i = home(key);
  while (slots_[i].rank != kNoMerge && slots_[i].pair != key) i = (i + 1) & (slots_.size() - 1);
  return slots_[i].rank;
}

void MergeModel::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  constexpr uint32_t kNone = UINT32_MAX;
  auto& symbols = scratch.symbols_;
  auto& queue = scratch.queue_;
  symbols.clear();
  queue.clear();

  for (const char byte : piece) {
    const TokenId token = byte_token(static_cast<uint8_t>(byte));
    const auto i = static_cast<uint32_t>(symbols.size());
    if (token >= 0) symbols.push_back({token, i - 1, i + 1});  // the first's previous is kNone
  }
  if (symbols.empty()) return;
  symbols.back().next = kNone;

  const auto push = [&](uint32_t left) {
    const uint32_t best = rank(symbols[left].token, symbols[symbols[left].next].token);
    if (best == kNoMerge) return false;
    queue.push_back(uint64_t{best} << 32 | left);
    return true;
  };
  for (uint32_t i = 0; i + 1 < symbols.size(); ++i) push(i);
  std::ranges::make_heap(queue, std::greater{});

  while (!queue.empty()) {
    std::ranges::pop_heap(queue, std::greater{});
    const auto left = static_cast<uint32_t>(queue.back());
    const Merge& merge = merges_[queue.back() >> 32];
    queue.pop_back();

    const uint32_t right = symbols[left].next;
    // Entries are not taken back when a neighbour changes: the pair they were made for may be gone.
    if (symbols[left].token != merge.left || right == kNone || symbols[right].token != merge.right) continue;

    symbols[left].token = merge.result;
    symbols[left].next = symbols[right].next;
    symbols[right].token = -1;
    if (symbols[left].next != kNone) {
      symbols[symbols[left].next].previous = left;
      if (push(left)) std::ranges::push_heap(queue, std::greater{});
    }
    if (symbols[left].previous != kNone && push(symbols[left].previous)) std::ranges::push_heap(queue, std::greater{});
  }

  for (uint32_t i = 0; i != kNone; i = symbols[i].next) out.push_back(symbols[i].token);
}

}  // namespace lockstep
