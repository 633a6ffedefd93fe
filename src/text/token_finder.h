// Finds given texts in a text: leftmost first, the longest where several begin at one place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep {

// An Aho-Corasick automaton over the reversed tokens. Reading the text backwards, its state at a position names the
// longest token that *begins* there, so one pass back and one pass forward give the matches in time linear in the text,
// whatever the tokens are.
class TokenFinder {
 public:
  struct Token {
    std::string_view text;  // not empty; needed only during construction. Of equal ones the first counts
    uint32_t index;         // the caller's name for it
  };
  struct Match {
    size_t begin, length;  // bytes
    uint32_t index;        // the caller's name for it
  };

  explicit TokenFinder(const std::vector<Token>& tokens);

  // The matches, which do not overlap, from left to right.
  std::vector<Match> find(std::string_view text) const;

 private:
  using State = uint32_t;  // 0 is the root
  struct Node {
    State fallback = 0;   // the state of the longest proper suffix that is also a path from the root
    uint32_t length = 0;  // of the longest token that ends this path; 0: none does
    uint32_t index = 0;
  };

  static uint64_t edge(State from, uint8_t byte) { return uint64_t{from} << 8 | byte; }
  State step(State from, uint8_t byte) const;
  void link_fallbacks(const std::vector<std::vector<std::pair<State, uint8_t>>>& edges_by_depth);

  std::vector<Node> nodes_;
  std::array<State, 256> from_root_{};
  std::unordered_map<uint64_t, State> edges_;  // edge(from, byte) -> to, the root's apart
};

}  // namespace lockstep
