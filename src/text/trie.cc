// The tree is made level by level from the sorted texts: a node is a run of them that share a beginning.
#include "text/trie.h"

#include <algorithm>

namespace lockstep {

Trie::Trie(const TokenTable& tokens) {
  std::vector<TokenId> sorted;
  for (TokenId id = 0; id < tokens.size(); ++id) {
    const bool usable = tokens.kind(id) == TokenKind::Normal || tokens.kind(id) == TokenKind::UserDefined;
    if (usable && !tokens.text(id).empty() && tokens.find(tokens.text(id)) == id) sorted.push_back(id);
  }
  std::ranges::sort(sorted, {}, [&](TokenId id) { return tokens.text(id); });

  struct Run {
    Node node;
    size_t begin, end;  // in sorted
  };
  nodes_.emplace_back();
  std::vector<Run> level{{kRoot, 0, sorted.size()}}, next;
  for (size_t depth = 0; !level.empty(); ++depth) {
    next.clear();
    for (auto [node, begin, end] : level) {
      nodes_[node].first_child = static_cast<Node>(nodes_.size());
      while (begin < end) {
        const char byte = tokens.text(sorted[begin])[depth];
        size_t last = begin;
        while (last < end && tokens.text(sorted[last])[depth] == byte) ++last;
        const auto child = static_cast<Node>(nodes_.size());
        nodes_.push_back({0, -1, 0, static_cast<uint8_t>(byte)});
        ++nodes_[node].children;
        // The shortest of a run comes first; every text is there once.
        if (tokens.text(sorted[begin]).size() == depth + 1) nodes_[child].token = sorted[begin++];
        if (begin < last) next.push_back({child, begin, last});
        begin = last;
      }
    }
    std::swap(level, next);
  }
  for (Node i = nodes_[kRoot].first_child; i < nodes_[kRoot].first_child + nodes_[kRoot].children; ++i) {
    root_[nodes_[i].byte] = i;
  }
}

std::optional<Trie::Node> Trie::walk(Node node, std::string_view text) const {
  for (const char byte : text) {
    const auto found = child(node, static_cast<uint8_t>(byte));
    if (!found) return std::nullopt;
    node = *found;
  }
  return node;
}

}  // namespace lockstep
