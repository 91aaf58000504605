// Finds markers in a stream, byte by byte, and knows at each byte how much of the end of the stream
// may still become one: an automaton after Aho and Corasick, so that overlaps such as `<</` are
// never lost and no byte is looked at twice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::chat {

/// What a marker means to its reader.
enum class Mark : uint8_t {
  kNone,
  kThink,
  kEndOfThink,
  kBlock,
  kAsciiBlock,
  kInvoke,
  kEndOfCalls,
  kQuote,
  kParameter,
  kEndOfTag,
  kIsText,
  kIsValue,
};

struct Marker {
  std::string text;  ///< not empty; no marker of a set is part of another
  Mark mark{};
};

/// Immutable; safe from any thread.
class MarkerSet {
 public:
  using Node = int16_t;  ///< the longest end of the stream with which a marker begins
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = -1;

  explicit MarkerSet(const std::vector<Marker>& markers);

  /// The node that `byte` leads to from `node`, or kNone.
  Node child(Node node, char byte) const;
  /// The longest proper end of the node's text that is a node.
  Node fallback(Node node) const { return at(node).fallback; }
  std::string_view text(Node node) const;
  /// kNone where the node's text is not a marker yet.
  Mark mark(Node node) const { return at(node).mark; }

  /// How many bytes in front of `text` neither begin a marker nor are line feeds.
  size_t num_plain(std::string_view text) const;

 private:
  struct Entry {
    Node first_child = kNone;
    Node sibling = kNone;
    Node fallback = kRoot;
    uint8_t marker = 0;  // one that begins with the node's text,
    uint8_t depth = 0;   // which has this many bytes
    char byte = 0;
    Mark mark = Mark::kNone;
  };

  const Entry& at(Node node) const { return entries_[static_cast<size_t>(node)]; }
  Entry& at(Node node) { return entries_[static_cast<size_t>(node)]; }
  void add(const Marker& marker, uint8_t index);
  void link();

  std::vector<std::string> texts_;
  std::vector<Entry> entries_;
  std::array<bool, 256> is_plain_;
};

}  // namespace stoker::chat
