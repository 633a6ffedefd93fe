// Building and running the automaton.
#include "text/token_finder.h"

#include <algorithm>
#include <utility>

namespace lockstep {

TokenFinder::TokenFinder(const std::vector<Token>& tokens) : nodes_(1) {
  std::vector<std::vector<std::pair<State, uint8_t>>> edges_by_depth;  // where they begin: breadth-first order
  for (const Token& token : tokens) {
    State state = 0;
    for (size_t depth = 0; depth < token.text.size(); ++depth) {
      const auto byte = static_cast<uint8_t>(token.text[token.text.size() - 1 - depth]);
      State& next = depth == 0 ? from_root_[byte] : edges_[edge(state, byte)];
      if (next == 0) {
        next = static_cast<State>(nodes_.size());
        nodes_.emplace_back();
        if (edges_by_depth.size() <= depth) edges_by_depth.emplace_back();
        edges_by_depth[depth].emplace_back(state, byte);
      }
      state = next;
    }
    if (nodes_[state].length > 0) continue;
    nodes_[state].length = static_cast<uint32_t>(token.text.size());
    nodes_[state].index = token.index;
  }
  link_fallbacks(edges_by_depth);
}

// A fallback is shorter than its path, so nodes are linked in order of depth.
void TokenFinder::link_fallbacks(const std::vector<std::vector<std::pair<State, uint8_t>>>& edges_by_depth) {
  for (size_t depth = 1; depth < edges_by_depth.size(); ++depth) {
    for (const auto& [from, byte] : edges_by_depth[depth]) {
      Node& node = nodes_[edges_.at(edge(from, byte))];
      node.fallback = step(nodes_[from].fallback, byte);
      if (node.length == 0) {
        node.length = nodes_[node.fallback].length;
        node.index = nodes_[node.fallback].index;
      }
    }
  }
}

TokenFinder::State TokenFinder::step(State from, uint8_t byte) const {
  for (; from != 0; from = nodes_[from].fallback) {
    if (const auto found = edges_.find(edge(from, byte)); found != edges_.end()) return found->second;
  }
  return from_root_[byte];
}

std::vector<TokenFinder::Match> TokenFinder::find(std::string_view text) const {
  std::vector<Match> longest;  // at each position where a token begins, from right to left
  State state = 0;
  for (size_t i = text.size(); i-- > 0;) {
    state = step(state, static_cast<uint8_t>(text[i]));
    if (nodes_[state].length > 0) longest.push_back({i, nodes_[state].length, nodes_[state].index});
  }
  std::ranges::reverse(longest);
  size_t free = 0;  // where the last match kept ends
  std::erase_if(longest, [&](const Match& match) {
    if (match.begin < free) return true;
    free = match.begin + match.length;
    return false;
  });
  return longest;
}

}  // namespace lockstep
