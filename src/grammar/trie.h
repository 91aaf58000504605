// A set of byte strings with their ids, as a tree that shares beginnings, in the order of a walk:
// a node is followed by what is below it, so a walk is one pass that skips.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace stoker::grammar {

/// Immutable; safe from any thread.
class Trie {
 public:
  struct Node {
    uint32_t end = 0;          ///< the first node behind those below this one
    uint32_t first_token = 0;  ///< into tokens(); up to the next node's
    uint16_t depth = 0;        ///< bytes up to here
    uint8_t byte = 0;          ///< the last of them
  };

  Trie() : Trie(std::vector<std::pair<std::string_view, int32_t>>()) {}
  /// Strings of at most 65535 bytes; several may be equal.
  explicit Trie(std::vector<std::pair<std::string_view, int32_t>> strings);

  uint32_t size() const { return static_cast<uint32_t>(nodes_.size() - 1); }
  /// Node 0 is the empty string; node(size()) ends the list.
  const Node& node(uint32_t index) const { return nodes_[index]; }
  /// The ids of the strings that end at a node.
  std::span<const int32_t> tokens(uint32_t index) const {
    return std::span(tokens_).subspan(nodes_[index].first_token,
                                      nodes_[index + 1].first_token - nodes_[index].first_token);
  }
  size_t max_depth() const { return max_depth_; }

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  size_t max_depth_ = 0;
};

}  // namespace stoker::grammar
