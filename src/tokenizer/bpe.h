// Byte-pair encoding of one piece: merge the adjacent pair of lowest rank, the leftmost of equals,
// until none is left.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace stoker {

/// The merge table. Immutable; safe from any thread. A plain value.
class Bpe {
 public:
  /// Two ids that stand side by side become one. Its rank is its place in the list.
  struct Merge {
    int32_t left = 0;
    int32_t right = 0;
    int32_t result = 0;
  };

  /// Buffers that encode() uses again from piece to piece. One owner.
  struct Workspace;

  Bpe() = default;

  /// byte_ids: the id of each byte. merges: by rank, no pair twice, every id in [0, num_ids).
  Bpe(const std::array<int32_t, 256>& byte_ids, size_t num_ids, std::span<const Merge> merges);

  /// Appends the ids of a piece of less than 4 GiB. O(n log n) for n bytes, whatever the bytes.
  void encode(std::string_view piece, Workspace& workspace, std::vector<int32_t>& ids) const;

 private:
  struct Entry {
    int32_t right = 0;
    uint32_t rank = 0;
    int32_t result = 0;
  };

  const Entry* find(int32_t left, int32_t right) const;
  uint32_t rank_of(int32_t left, int32_t right) const;
  void link(std::string_view piece, Workspace& workspace) const;
  void merge_all(Workspace& workspace) const;
  void refresh_pair(Workspace& workspace, uint32_t at) const;

  std::array<int32_t, 256> byte_ids_{};
  std::vector<uint32_t> starts_;  // [num_ids + 1]: where the entries of a left id start
  std::vector<Entry> entries_;    // by left id, then by right id
};

struct Bpe::Workspace {
  /// One symbol of the piece in a doubly linked list; the first is at 0 and stays there.
  struct Node {
    int32_t id = 0;          ///< kGone: merged into the one before it
    uint32_t previous = 0;   ///< kNone at the first
    uint32_t next = 0;       ///< kNone at the last
    uint32_t pair_rank = 0;  ///< rank of this and the next, or kNone
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr int32_t kGone = -1;

  std::vector<Node> nodes;  ///< one for each byte
  std::vector<uint64_t>
      heap;  ///< rank << 32 | place, smallest on top; stale where it is not the node's pair_rank
};

}  // namespace stoker
