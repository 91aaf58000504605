#include "kv/kv_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace stoker {

Result<std::unique_ptr<KvStore>> KvStore::create(const KvShape& shape, const KvPlan& plan) {
  const auto bytes = static_cast<size_t>(plan.total_bytes - plan.index_bytes);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Error{ErrorCode::kResourceExhausted,
                 "no memory for the KV state: asked for " + std::to_string(bytes) + " bytes", ""};
  }
  return std::unique_ptr<KvStore>(new KvStore(shape, plan, static_cast<uint8_t*>(memory)));
}

KvStore::KvStore(KvShape shape, const KvPlan& plan, uint8_t* memory)
    : shape_(std::move(shape)),
      plan_(plan),
      slot_bytes_(shape_.slot_bytes()),
      block_bytes_(shape_.block_bytes()),
      unit_bytes_(shape_.image_unit_bytes()),
      mapped_bytes_(plan.total_bytes - plan.index_bytes),
      memory_(memory),
      references_(static_cast<size_t>(plan.num_blocks), 0),
      slot_taken_(static_cast<size_t>(plan.num_slots), false) {
  // Taken from the back: the lowest first.
  for (int64_t i = plan.num_blocks; i-- > 0;) free_blocks_.push_back(static_cast<BlockId>(i));
  for (int32_t i = plan.num_slots; i-- > 0;) free_slots_.push_back(static_cast<SlotId>(i));
  for (int64_t i = plan.num_image_units; i-- > 0;)
    free_units_.push_back(static_cast<ImageUnitId>(i));
}

KvStore::~KvStore() {
  ::munmap(memory_, static_cast<size_t>(mapped_bytes_));
}

std::optional<SlotId> KvStore::take_slot() {
  if (free_slots_.empty()) return std::nullopt;
  const SlotId taken = free_slots_.back();
  free_slots_.pop_back();
  slot_taken_[static_cast<size_t>(taken)] = true;
  std::memset(slot(taken), 0, static_cast<size_t>(slot_bytes_));
  return taken;
}

void KvStore::release_slot(SlotId slot) {
  CHECK(slot_taken_[static_cast<size_t>(slot)], "a slot is released once");
  slot_taken_[static_cast<size_t>(slot)] = false;
  free_slots_.push_back(slot);
}

uint8_t* KvStore::slot(SlotId slot) {
  return memory_ + static_cast<int64_t>(slot) * slot_bytes_;
}

std::optional<BlockId> KvStore::take_block() {
  if (free_blocks_.empty()) return std::nullopt;
  const BlockId taken = free_blocks_.back();
  free_blocks_.pop_back();
  references_[static_cast<size_t>(taken)] = 1;
  return taken;
}

void KvStore::retain_block(BlockId block) {
  CHECK(references_[static_cast<size_t>(block)] > 0, "a free block has no user");
  ++references_[static_cast<size_t>(block)];
}

void KvStore::release_block(BlockId block) {
  CHECK(references_[static_cast<size_t>(block)] > 0,
        "a block is released as often as it was taken");
  if (--references_[static_cast<size_t>(block)] == 0) free_blocks_.push_back(block);
}

uint8_t* KvStore::block(BlockId block) {
  return memory_ + plan_.num_slots * slot_bytes_ + plan_.num_image_units * unit_bytes_ +
         static_cast<int64_t>(block) * block_bytes_;
}

std::optional<ImageUnitId> KvStore::take_image_unit() {
  if (free_units_.empty()) return std::nullopt;
  const ImageUnitId taken = free_units_.back();
  free_units_.pop_back();
  return taken;
}

void KvStore::release_image_unit(ImageUnitId unit) {
  DCHECK(num_free_image_units() < plan_.num_image_units, "a unit is released once");
  free_units_.push_back(unit);
}

uint8_t* KvStore::image_unit(ImageUnitId unit) {
  return memory_ + plan_.num_slots * slot_bytes_ + static_cast<int64_t>(unit) * unit_bytes_;
}

void KvStore::give_back() {
  CHECK(num_free_slots() == plan_.num_slots && num_free_blocks() == plan_.num_blocks &&
            num_free_image_units() == plan_.num_image_units,
        "memory that is in use is not given back");
  // Fails for locked pages alone, which keep their bytes; nobody needs them.
  (void)::madvise(memory_, static_cast<size_t>(mapped_bytes_), MADV_DONTNEED);
}

std::string KvStore::integrity_problem(const std::vector<int32_t>& expected_references) const {
  if (expected_references.size() != references_.size()) return "the number of blocks differs";
  std::vector<bool> is_free(references_.size(), false);
  for (const BlockId block : free_blocks_) {
    const auto at = static_cast<size_t>(block);
    if (is_free[at]) return "block " + std::to_string(at) + " is in the free list twice";
    is_free[at] = true;
  }
  for (size_t at = 0; at < references_.size(); ++at) {
    if (references_[at] != expected_references[at]) {
      return "block " + std::to_string(at) + ": " + std::to_string(references_[at]) +
             " references, but its users hold " + std::to_string(expected_references[at]);
    }
    if (is_free[at] != (references_[at] == 0))
      return "block " + std::to_string(at) + " is free and in use, or neither";
  }
  return {};
}

}  // namespace stoker
