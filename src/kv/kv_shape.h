// Sizes of what the model remembers of a sequence, and the arithmetic of one memory budget. The
// planner prints what this says, and the store allocates it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/result.h"
#include "tensor/formats.h"

namespace stoker {

/// Positions in a block: the growing part of a sequence's state is allocated and shared in blocks.
inline constexpr int32_t kBlockTokens = 128;

/// Sizes that a sequence's state depends on. A value; compared by every field.
struct KvShape {
  int32_t num_layers = 0;
  int32_t head_dim = 0;        ///< multiple of 32
  int32_t index_head_dim = 0;  ///< multiple of 32
  int32_t window = 0;          ///< rows of each ring, the current one included
  int32_t history = 0;  ///< Engram classes kept: the largest n-gram less one; 0 without Engram
  struct Source {
    int32_t layer = 0;
    int32_t ratio = 1;  ///< tokens in a group; divides kBlockTokens
    bool operator==(const Source&) const = default;
  };
  std::vector<Source> sources;  ///< KV sources, ascending by layer

  bool operator==(const KvShape&) const = default;

  int64_t window_record() const { return window_record_bytes(head_dim); }
  int64_t latent_record() const { return latent_record_bytes(head_dim); }
  int64_t index_record() const { return index_record_bytes(index_head_dim); }

  /// Entries of a source in a block, and the bytes of a block: for each source its latents, then
  /// its index keys.
  int64_t entries_per_block(size_t source) const { return kBlockTokens / sources[source].ratio; }
  int64_t block_bytes() const;
  /// Where in a block a source's latents and its index keys begin.
  int64_t latents_offset(size_t source) const;
  int64_t index_keys_offset(size_t source) const;

  /// The fixed part of a sequence, its slot: the rings by layer, then the open groups by source (kv
  /// rows, then gate rows), then the history.
  int64_t ring_bytes() const { return window * window_record(); }
  int64_t rings_bytes() const { return num_layers * ring_bytes(); }
  int64_t open_group_bytes(size_t source) const;
  int64_t open_group_offset(size_t source) const;
  int64_t history_offset() const;
  int64_t slot_bytes() const;
};

/// Blocks that hold `tokens` positions.
constexpr int64_t blocks_for(int64_t tokens) {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}

/// How a budget is spent.
struct KvPlan {
  int32_t num_slots = 0;   ///< sequences that can have state at the same time
  int64_t num_blocks = 0;  ///< shared by all of them
  int64_t total_bytes = 0;

  int64_t tokens() const { return num_blocks * kBlockTokens; }
  /// Sequences of `tokens` positions each that fit together.
  int64_t sequences_of(int64_t tokens) const;
};

/// Slots for `max_num_seqs` sequences, all else in blocks. Error: kInvalidArgument, saying what it
/// would need, where the budget does not hold one sequence of one block.
Result<KvPlan> plan_kv(const KvShape& shape, int64_t budget_bytes, int32_t max_num_seqs);

}  // namespace stoker
