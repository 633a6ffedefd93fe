// The merge loop, the table of pairs, and what a word begins with.
#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/error.h"
#include "text/unicode.h"

namespace lockstep {

MergeTable::MergeTable(size_t merges) : slots_(std::bit_ceil(2 * merges + 2)) {
  shift_ = 64 - std::countr_zero(slots_.size());
}

bool MergeTable::insert(TokenId left, TokenId right, uint32_t rank, TokenId result) {
  if (2 * (size_ + 1) > slots_.size()) grow();
  const uint64_t key = pair(left, right);
  size_t i = home(key);
  while (slots_[i].rank != kNoMerge) {
    if (slots_[i].pair == key) return false;
    i = (i + 1) & (slots_.size() - 1);
  }
  slots_[i] = {key, rank, result};
  ++size_;
  return true;
}

void MergeTable::grow() {
  const std::vector<Merge> old = std::exchange(slots_, std::vector<Merge>(2 * slots_.size()));
  --shift_;
  for (const Merge& merge : old) {
    if (merge.rank == kNoMerge) continue;
    size_t i = home(merge.pair);
    while (slots_[i].rank != kNoMerge) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = merge;
  }
}

std::array<TokenId, 256> byte_fallback_tokens(const TokenTable& tokens) {
  std::array<TokenId, 256> ids;
  for (size_t byte = 0; byte < ids.size(); ++byte) ids[byte] = tokens.find(fmt::format("<0x{:02X}>", byte));
  return ids;
}

bool append_bytes(std::string_view text, const std::array<TokenId, 256>& byte_tokens, std::vector<TokenId>& out) {
  const auto token = [&](char byte) { return byte_tokens[static_cast<uint8_t>(byte)]; };
  if (std::ranges::any_of(text, [&](char byte) { return token(byte) < 0; })) return false;
  for (const char byte : text) out.push_back(token(byte));
  return true;
}

BpeModel::BpeModel(const TokenTable& tokens, MergeTable merges, Options options)
    : tokens_(tokens),
      merges_(std::move(merges)),
      options_(std::move(options)),
      plain_bytes_(options_.byte_level && options_.continuing_subword_prefix.empty() &&
                   options_.end_of_word_suffix.empty() && !options_.unknown && !options_.byte_fallback) {
  byte_tokens_.fill(-1);
  if (options_.byte_level) {
    for (size_t b = 0; b < 256; ++b) {
      const std::string_view character = alphabet_.character(static_cast<uint8_t>(b));
      const TokenId token = tokens.find(character);
      // A literal token stands for its byte only where the alphabet writes the byte as itself.
      if (token >= 0 && (!tokens.is_literal(token) || character.size() == 1)) byte_tokens_[b] = token;
    }
  } else if (options_.byte_fallback) {
    byte_tokens_ = byte_fallback_tokens(tokens);
  }
}

bool BpeModel::is_bounded() const {
  return !options_.unknown || std::ranges::all_of(byte_tokens_, [](TokenId id) { return id >= 0; });
}

void BpeModel::encode(std::string_view word, ModelScratch& scratch, std::vector<TokenId>& out) const {
  constexpr uint32_t kNone = UINT32_MAX;
  scratch.lost.reset();
  std::string in_alphabet;
  if (options_.byte_level && (options_.ignore_merges || !plain_bytes_)) {
    for (const char byte : word) in_alphabet += alphabet_.character(static_cast<uint8_t>(byte));
  }
  const std::string_view text = in_alphabet.empty() ? word : std::string_view(in_alphabet);
  if (options_.ignore_merges) {
    const TokenId whole = tokens_.find(text);
    // A token that is taken literally does not stand for the bytes that its characters would.
    const bool literal = whole >= 0 && options_.byte_level && tokens_.is_literal(whole);
    if (whole >= 0 && !literal && tokens_.kind(whole) != TokenKind::Special) {
      out.push_back(whole);
      return;
    }
  }
  auto& symbols = scratch.symbols;
  symbols.clear();
  if (plain_bytes_) {
    begin_with_bytes(word, scratch);
  } else {
    begin_with_characters(text, scratch);
  }
  if (symbols.empty()) return;
  for (uint32_t i = 0; i < symbols.size(); ++i) symbols[i].previous = i - 1, symbols[i].next = i + 1;
  symbols.back().next = kNone;  // the first's previous is it too
  merge_all(scratch);
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) out.push_back(symbols[i].token);
}

void BpeModel::begin_with_bytes(std::string_view word, ModelScratch& scratch) const {
  for (size_t i = 0; i < word.size(); ++i) {
    const TokenId token = byte_tokens_[static_cast<uint8_t>(word[i])];
    if (token >= 0) {
      scratch.symbols.push_back({token, 0, 0});
    } else if (!scratch.lost) {
      scratch.lost = i;
    }
  }
}

// `lost` counts bytes of the word, which at byte level are the characters of `text`.
void BpeModel::begin_with_characters(std::string_view text, ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  std::string& letter = scratch.letter;
  bool unknown_before = false;  // a run of unknown characters that is not yet in symbols
  const auto put = [&](TokenId token) { symbols.push_back({token, 0, 0}); };
  size_t characters = 0;
  for (size_t at = 0; at < text.size(); ++characters) {
    const size_t length = first_character(text.substr(at)).length;
    letter.assign(at == 0 ? "" : options_.continuing_subword_prefix).append(text, at, length);
    if (at + length == text.size()) letter += options_.end_of_word_suffix;
    const size_t offset = options_.byte_level ? characters : at;
    at += length;
    if (const TokenId token = tokens_.find(letter); token >= 0) {
      if (std::exchange(unknown_before, false)) put(*options_.unknown);
      put(token);
      continue;
    }
    if (options_.byte_fallback) {
      std::vector<TokenId> bytes;
      if (append_bytes(letter, byte_tokens_, bytes)) {
        for (const TokenId token : bytes) put(token);
        continue;
      }
    }
    if (options_.unknown) {
      if (unknown_before && !options_.fuse_unknown) put(*options_.unknown);
      unknown_before = true;
    } else if (!scratch.lost) {
      scratch.lost = offset;
    }
  }
  if (unknown_before) put(*options_.unknown);
}

void BpeModel::merge_all(ModelScratch& scratch) const {
  constexpr uint32_t kNone = UINT32_MAX;
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  queue.clear();
  const auto push = [&](uint32_t left) {
    const uint32_t rank = merges_.find(symbols[left].token, symbols[symbols[left].next].token).rank;
    if (rank == MergeTable::kNoMerge) return false;
    queue.push_back(uint64_t{rank} << 32 | left);
    return true;
  };
  for (uint32_t i = 0; i + 1 < symbols.size(); ++i) push(i);
  std::ranges::make_heap(queue, std::greater{});

  while (!queue.empty()) {
    std::ranges::pop_heap(queue, std::greater{});
    const auto left = static_cast<uint32_t>(queue.back());
    const auto rank = static_cast<uint32_t>(queue.back() >> 32);
    queue.pop_back();

    // Entries are not taken back when a neighbour changes: the pair they were made for may be gone.
    const uint32_t right = symbols[left].next;
    if (symbols[left].token < 0 || right == kNone) continue;
    const MergeTable::Merge& merge = merges_.find(symbols[left].token, symbols[right].token);
    if (merge.rank != rank) continue;

    symbols[left].token = merge.result;
    symbols[left].next = symbols[right].next;
    symbols[right].token = -1;
    if (symbols[left].next != kNone) {
      symbols[symbols[left].next].previous = left;
      if (push(left)) std::ranges::push_heap(queue, std::greater{});
    }
    if (symbols[left].previous != kNone && push(symbols[left].previous)) std::ranges::push_heap(queue, std::greater{});
  }
}

}  // namespace lockstep
