// Unigram: Viterbi over the bytes of the word.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "text/token_model.h"
#include "text/unicode.h"

namespace lockstep {
namespace {

constexpr double kUnknownPenalty = 10;             // below the worst token, as SentencePiece has it
constexpr size_t kLongestWord = size_t{16} << 20;  // bytes; a node each
constexpr uint32_t kUnreached = std::numeric_limits<uint32_t>::max();
constexpr TokenId kUnknown = -1;  // on the way

}  // namespace

UnigramModel::UnigramModel(const TokenTable& tokens, std::vector<double> scores, std::optional<TokenId> unknown,
                           bool byte_fallback)
    : trie_(tokens),
      scores_(std::move(scores)),
      unknown_(unknown),
      unknown_score_(std::ranges::min(scores_) - kUnknownPenalty) {
  if (byte_fallback) {
    byte_tokens_ = byte_fallback_tokens(tokens);
  } else {
    byte_tokens_.fill(-1);
  }
  every_byte_ = std::ranges::all_of(byte_tokens_, [](TokenId id) { return id >= 0; });
}

void UnigramModel::encode(std::string_view word, ModelScratch& scratch, std::vector<TokenId>& out) const {
  if (word.size() > kLongestWord) {
    fail(ErrorKind::DoesNotFit, "a word of {} bytes cannot be tokenized by a Unigram vocabulary: at most {}",
         word.size(), kLongestWord);
  }
  scratch.lost.reset();
  auto& nodes = scratch.nodes;
  nodes.assign(word.size() + 1, {0, kUnknown, kUnreached});
  nodes[0].begin = 0;
  const auto offer = [&](size_t begin, size_t end, TokenId token, double score) {
    if (nodes[end].begin == kUnreached || score > nodes[end].score) {
      nodes[end] = {score, token, static_cast<uint32_t>(begin)};
    }
  };
  for (size_t begin = 0; begin < word.size();) {
    const size_t letter = first_character(word.substr(begin)).length;
    const double so_far = nodes[begin].score;
    bool alone = false;  // the character is a token by itself
    auto node = std::optional(Trie::kRoot);
    for (size_t i = begin; i < word.size(); ++i) {
      node = trie_.child(*node, static_cast<uint8_t>(word[i]));
      if (!node) break;
      const TokenId token = trie_.token(*node);
      if (token < 0) continue;
      offer(begin, i + 1, token, so_far + scores_[static_cast<size_t>(token)]);
      alone |= i + 1 - begin == letter;
    }
    if (!alone) offer(begin, begin + letter, kUnknown, so_far + unknown_score_);
    begin += letter;
  }

  auto& reversed = scratch.reversed;
  reversed.clear();
  std::vector<std::pair<size_t, size_t>> unknown_runs;  // the last one first
  for (size_t end = word.size(); end > 0; end = nodes[end].begin) {
    const bool continues = nodes[end].token == kUnknown && !reversed.empty() && reversed.back() == kUnknown;
    if (continues) {
      unknown_runs.back().first = nodes[end].begin;
      continue;
    }
    reversed.push_back(nodes[end].token);
    if (nodes[end].token == kUnknown) unknown_runs.emplace_back(nodes[end].begin, end);
  }
  for (size_t i = reversed.size(); i-- > 0;) {
    if (reversed[i] != kUnknown) {
      out.push_back(reversed[i]);
      continue;
    }
    const auto [begin, end] = unknown_runs.back();
    unknown_runs.pop_back();
    const size_t before = out.size();
    append_unknown(word.substr(begin, end - begin), out);
    if (out.size() == before && !scratch.lost) scratch.lost = begin;
  }
}

void UnigramModel::append_unknown(std::string_view run, std::vector<TokenId>& out) const {
  if (append_bytes(run, byte_tokens_, out)) return;
  if (unknown_) out.push_back(*unknown_);
}

}  // namespace lockstep
