// The memory of all sequences: slots for what is fixed, units for images of slots, and
// reference-counted blocks for what grows. Reserved once, at load; nothing is allocated afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kv/kv_shape.h"
#include "stoker/result.h"

namespace stoker {

/// A block of the pool, a slot, a unit of an image. Distinct types, so that none is taken for
/// another or for a count.
enum class BlockId : int32_t {};
enum class SlotId : int32_t {};
enum class ImageUnitId : int32_t {};

/// Owned by the engine; used by its thread alone. Bytes of different blocks and slots may be
/// written by different workers.
class KvStore {
 public:
  /// Error: kResourceExhausted where the system does not give the memory.
  static Result<std::unique_ptr<KvStore>> create(const KvShape& shape, const KvPlan& plan);
  ~KvStore();
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;

  const KvShape& shape() const { return shape_; }
  const KvPlan& plan() const { return plan_; }

  /// A slot with all bytes 0, or none where all are taken.
  std::optional<SlotId> take_slot();
  void release_slot(SlotId slot);
  uint8_t* slot(SlotId slot);

  /// A block with one reference and any content, or none where all are taken.
  std::optional<BlockId> take_block();
  void retain_block(BlockId block);
  /// Gives one reference back; the block is free when none is left.
  void release_block(BlockId block);
  int32_t block_references(BlockId block) const { return references_[static_cast<size_t>(block)]; }
  uint8_t* block(BlockId block);

  /// A unit with any content, or none where all are taken.
  std::optional<ImageUnitId> take_image_unit();
  void release_image_unit(ImageUnitId unit);
  uint8_t* image_unit(ImageUnitId unit);

  /// Of a store of which everything is free: gives its memory back to the system, which gives it
  /// again as it is used, with all bytes 0.
  void give_back();

  int64_t num_free_image_units() const { return static_cast<int64_t>(free_units_.size()); }
  int64_t num_free_blocks() const { return static_cast<int64_t>(free_blocks_.size()); }
  int64_t num_free_slots() const { return static_cast<int64_t>(free_slots_.size()); }

  /// What is wrong with the store, given how many references its users hold to each block
  /// ([num_blocks]); empty: nothing. For tests: every block is free or referenced, never both, and
  /// no reference is lost.
  std::string integrity_problem(const std::vector<int32_t>& expected_references) const;

 private:
  KvStore(KvShape shape, const KvPlan& plan, uint8_t* memory);

  const KvShape shape_;
  const KvPlan plan_;
  const int64_t slot_bytes_;
  const int64_t block_bytes_;
  const int64_t unit_bytes_;
  const int64_t mapped_bytes_;
  uint8_t* memory_;  // mapped: the slots, the units, the blocks
  std::vector<int32_t> references_;
  std::vector<BlockId> free_blocks_;
  std::vector<SlotId> free_slots_;
  std::vector<ImageUnitId> free_units_;
  std::vector<bool> slot_taken_;
};

}  // namespace stoker
