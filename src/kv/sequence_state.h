// What the model remembers of one sequence, in the record formats that lose nothing
// (docs/formats.md): window rings, latents and index keys of the KV sources, their open groups, and
// the Engram history. The state has one owner, which passes it to the model's forward calls; the
// model alone reads and writes its records.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/kv_store.h"

namespace stoker {

/// A copy of a slot as it is after the first `n` positions, n a multiple of kBlockTokens, so that
/// no group is open. Borrows the units of the store that it lies in. A value.
class SlotImage {
 public:
  /// late: null where the late rings are not held, or are in the early part (no late rings).
  SlotImage(const KvShape& shape, uint8_t* early, uint8_t* late)
      : shape_(&shape), early_(early), late_(late) {}

  bool is_whole() const { return late_ != nullptr || !shape_->has_late_rings(); }
  /// The row of a position in [n - window, n); null for a late ring that is not held.
  uint8_t* window_row(int32_t ring, int64_t position) const;
  /// The class of a position in [n - history, n).
  void set_history(int64_t position, int32_t token_class) const;
  /// With draft rings, of which an image that is not whole has no rows.
  void set_draft_from(int64_t position) const;
  int64_t draft_from() const;
  const uint8_t* early() const { return early_; }
  const uint8_t* late() const { return late_; }

 private:
  const KvShape* shape_;
  uint8_t* early_;
  uint8_t* late_;
};

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
  /// As if the last `rows` positions, at most max_drafts of the latest step's, had never been run.
  /// Gives back the blocks that only they needed.
  void roll_back(int64_t rows);

  /// Takes blocks until positions 0 .. positions - 1 have a place. False where the store has not
  /// enough; what it took until then stays.
  bool reserve(int64_t positions);
  /// Blocks that reserve(positions) would still have to take.
  int64_t blocks_missing(int64_t positions) const {
    return blocks_for(positions) - static_cast<int64_t>(blocks_.size());
  }
  const std::vector<BlockId>& blocks() const { return blocks_; }

  /// Begins an empty state with blocks that are filled, one more reference to each. Their entries
  /// are read only: others may share them.
  void share(std::span<const BlockId> blocks);
  /// Positions below this one lie in shared blocks: their entries are there and must not be
  /// written.
  int64_t shared_until() const { return shared_until_; }
  /// Gives block number `index` back for one with the same content, which it shares from now on.
  void replace_block(int64_t index, BlockId same);

  /// Makes the slot what it was at `length` positions, which have blocks.
  void restore(const SlotImage& image, int64_t length);

  /// Bounded replay: positions below this one do not run the late layers and have no rows in the
  /// late rings.
  int64_t late_from() const { return late_from_; }
  void set_late_from(int64_t position) { late_from_ = position; }

  /// Draft rings have rows for the positions from this one to the end, as far as these are in
  /// reach; none if it is the length. 0 without draft rings.
  int64_t draft_from() const;
  void set_draft_from(int64_t position);

  /// The window record of a layer or draft stage at a position.
  uint8_t* window_row(int32_t layer, int64_t position);
  const uint8_t* window_row(int32_t layer, int64_t position) const;
  /// Positions that a ring has room for: those that are seen and those that may be rolled back.
  int64_t num_ring_rows() const { return store_->shape().ring_rows(); }

  /// Records of entry (closed group) `entry` of the KV source number `source`; its position is
  /// reserved.
  uint8_t* latent(size_t source, int64_t entry);
  const uint8_t* latent(size_t source, int64_t entry) const;
  uint8_t* index_key(size_t source, int64_t entry);
  const uint8_t* index_key(size_t source, int64_t entry) const;
  /// Entries from `entry` on whose index keys lie one after the other in memory: up to the end of
  /// its block.
  int64_t entries_together(size_t source, int64_t entry) const;

  /// Projection and gate, [head_dim] each, of a token of a source's open group, which is the last
  /// (length mod ratio) positions, or of one that may be open again. There is room for the last
  /// num_open_rows() positions.
  float* open_kv(size_t source, int64_t position);
  float* open_gate(size_t source, int64_t position);
  int64_t num_open_rows(size_t source) const { return store_->shape().open_rows(source); }

  /// Engram class of the token `back` positions before the end (1 is the last one); kNoToken where
  /// there is none.
  int32_t history(int32_t back) const;
  int32_t history_size() const { return store_->shape().history; }
  /// The class of a position among the last `history` ones or behind the end.
  void set_history(int64_t position, int32_t token_class);

  static constexpr int32_t kNoToken = -1;

 private:
  SequenceState(KvStore& store, SlotId slot, int64_t max_blocks);
  void give_back();
  uint8_t* in_block(size_t source, int64_t entry, int64_t offset, int64_t record) const;
  uint8_t* slot() const { return store_->slot(slot_); }
  float* open_row(size_t source, int64_t position) const;

  KvStore* store_;  // null: moved from
  SlotId slot_;
  int64_t length_ = 0;
  int64_t shared_until_ = 0;
  int64_t late_from_ = 0;
  std::vector<BlockId> blocks_;  // capacity max_blocks
};

}  // namespace stoker
