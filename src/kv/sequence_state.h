// What the model remembers of one sequence, in the record formats that lose nothing
// (docs/formats.md): window rings, latents and index keys of the KV sources, their open groups, and
// the Engram history. The state has one owner, which passes it to the model's forward calls; the
// model alone reads and writes its records.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kv/kv_store.h"

namespace stoker {

/// Holds a slot and blocks of a store, and gives them back when it goes. Movable, not copyable.
/// Must not outlive the store.
class SequenceState {
 public:
  /// An empty state, or none where the store has no slot left. `max_blocks`: the longest that its
  /// block table may become.
  static std::optional<SequenceState> create(KvStore& store, int64_t max_blocks);

  SequenceState(SequenceState&& other) noexcept;
  SequenceState& operator=(SequenceState&& other) noexcept;
  SequenceState(const SequenceState&) = delete;
  SequenceState& operator=(const SequenceState&) = delete;
  ~SequenceState();

  /// Positions that have state: 0 .. length - 1.
  int64_t length() const { return length_; }
  /// The model ran `rows` more positions.
  void advance(int64_t rows) { length_ += rows; }

  /// Takes blocks until positions 0 .. positions - 1 have a place. False where the store has not
  /// enough; what it took until then stays.
  bool reserve(int64_t positions);
  /// Blocks that reserve(positions) would still have to take.
  int64_t blocks_missing(int64_t positions) const {
    return blocks_for(positions) - static_cast<int64_t>(blocks_.size());
  }
  const std::vector<BlockId>& blocks() const { return blocks_; }

  /// The window record of a layer at a position: one slot of its ring, which holds the last
  /// `window` positions.
  uint8_t* window_row(int32_t layer, int64_t position);
  const uint8_t* window_row(int32_t layer, int64_t position) const;

  /// Records of entry (closed group) `entry` of the KV source number `source`; its position is
  /// reserved.
  uint8_t* latent(size_t source, int64_t entry);
  const uint8_t* latent(size_t source, int64_t entry) const;
  uint8_t* index_key(size_t source, int64_t entry);
  const uint8_t* index_key(size_t source, int64_t entry) const;
  /// Entries from `entry` on whose index keys lie one after the other in memory: up to the end of
  /// its block.
  int64_t entries_together(size_t source, int64_t entry) const;

  /// The tokens of the open group of a source, (length mod ratio) rows of head_dim each:
  /// projections and gates. Room for ratio - 1 rows.
  float* open_kv(size_t source);
  float* open_gate(size_t source);
  int32_t num_open(size_t source) const;

  /// Engram class of the token `back` positions before the end (1 is the last one); kNoToken where
  /// there is none.
  int32_t history(int32_t back) const;
  void push_history(int32_t token_class);

  static constexpr int32_t kNoToken = -1;

 private:
  SequenceState(KvStore& store, SlotId slot, int64_t max_blocks);
  void give_back();
  uint8_t* in_block(size_t source, int64_t entry, int64_t offset, int64_t record) const;
  int32_t* history_data() const;

  KvStore* store_;  // null: moved from
  SlotId slot_;
  int64_t length_ = 0;
  std::vector<BlockId> blocks_;  // capacity max_blocks
};

}  // namespace stoker
