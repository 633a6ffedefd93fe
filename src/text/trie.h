// The texts of a vocabulary as a tree of bytes, for finding all tokens that a text begins with in one walk.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/token_table.h"

namespace lockstep {

// Nodes lie in order of depth, and the children of one beside each other in order of their byte. 12 bytes a node.
class Trie {
 public:
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  // A walk takes a step a byte, so this bounds what one place in a text can cost.
  static constexpr size_t kLongestToken = 512;

  // Of all normal and user-defined tokens that the model may produce. None is longer than kLongestToken.
  explicit Trie(const TokenTable& tokens);

  std::optional<Node> child(Node node, uint8_t byte) const {
    if (node == kRoot) return root_[byte] == 0 ? std::nullopt : std::optional(root_[byte]);
    const Entry& entry = nodes_[node];
    for (Node i = entry.first_child; i < entry.first_child + entry.children; ++i) {
      if (nodes_[i].byte >= byte) return nodes_[i].byte == byte ? std::optional(i) : std::nullopt;
    }
    return std::nullopt;
  }
  std::optional<Node> walk(Node node, std::string_view text) const;
  TokenId token(Node node) const { return nodes_[node].token; }  // that ends here; -1: none

 private:
  struct Entry {
    uint32_t first_child = 0;
    TokenId token = -1;
    uint16_t children = 0;
    uint8_t byte = 0;
  };
  std::vector<Entry> nodes_;
  std::array<Node, 256> root_{};
};

}  // namespace lockstep
