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
  int32_t num_rings = 0;  ///< window rings: one a layer, then one a draft stage
  /// Rings, from the first, that every row fills. Those behind them are left out for the rows that
  /// bounded replay does not run through the late layers; num_rings where there are no such rows.
  int32_t num_early_rings = 0;
  int32_t num_draft_rings = 0;  ///< rings of draft stages, the last ones
  /// Positions by which a sequence can be rolled back: a draft round's most tokens. What a slot
  /// keeps by position it keeps for so many positions more than are read, so that what is rolled
  /// back has overwritten nothing.
  int32_t max_drafts = 0;
  int32_t head_dim = 0;        ///< multiple of 32
  int32_t index_head_dim = 0;  ///< multiple of 32
  int32_t window = 0;          ///< rows of a ring that a position sees, itself included
  int32_t history = 0;  ///< Engram classes that are read: the largest n-gram less one; 0 without
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

  /// The fixed part of a sequence, its slot: where the draft rings begin to be filled (with draft
  /// rings), the history, the open groups by source (kv rows, then gate rows), then the rings. In
  /// each part, position p lies at p modulo its rows.
  int64_t history_rows() const { return int64_t{history} + max_drafts; }
  int64_t history_offset() const { return num_draft_rings > 0 ? int64_t{sizeof(int64_t)} : 0; }
  /// Tokens of the open group, and of what rolling back may open again.
  int64_t open_rows(size_t source) const;
  int64_t open_group_bytes(size_t source) const;
  int64_t open_group_offset(size_t source) const;
  int64_t rings_offset() const;
  int64_t ring_rows() const { return int64_t{window} + max_drafts; }
  int64_t ring_bytes() const { return ring_rows() * window_record(); }
  int64_t slot_bytes() const;

  /// A slot ends its early part with the last early ring; the late part is the rest, and may be
  /// empty. An image of a slot holds the early part, or both, each in a unit of this size.
  int64_t early_bytes() const { return rings_offset() + num_early_rings * ring_bytes(); }
  int64_t late_bytes() const { return slot_bytes() - early_bytes(); }
  bool has_late_rings() const { return num_early_rings < num_rings; }
  int64_t image_unit_bytes() const;
};

/// Blocks that hold `tokens` positions.
constexpr int64_t blocks_for(int64_t tokens) {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}

/// What there is to spend.
struct KvBudget {
  int64_t bytes = 0;
  int32_t max_num_seqs = 1;
  bool prefix_cache = false;
  int64_t image_bytes = -1;  ///< of it for images of slots; -1: an eighth. With the prefix cache
};

/// How a budget is spent.
struct KvPlan {
  int32_t num_slots = 0;        ///< sequences that can have state at the same time
  int64_t num_image_units = 0;  ///< images of slots, for the prefix cache
  int64_t num_blocks = 0;       ///< shared by all sequences and the prefix cache
  int64_t index_bytes = 0;      ///< what the prefix cache knows of the blocks
  int64_t total_bytes = 0;

  int64_t tokens() const { return num_blocks * kBlockTokens; }
  /// Sequences of `tokens` positions each that fit together.
  int64_t sequences_of(int64_t tokens) const;
};

/// What the prefix cache keeps of a block beside its bytes: its token ids and its place in the
/// tree.
inline constexpr int64_t kIndexBytesPerBlock =
    kBlockTokens * static_cast<int64_t>(sizeof(int32_t)) + 64;

/// Slots for max_num_seqs sequences, but no more than a half of the budget; then images; all else
/// in blocks. Error: kInvalidArgument, saying what it would need, where the budget does not hold
/// one sequence of one block.
Result<KvPlan> plan_kv(const KvShape& shape, const KvBudget& budget);

}  // namespace stoker
