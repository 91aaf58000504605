#include "kv/sequence_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace stoker {

uint8_t* SlotImage::window_row(int32_t ring, int64_t position) const {
  const int64_t offset =
      ring * shape_->ring_bytes() + position % shape_->window * shape_->window_record();
  if (ring < shape_->num_early_rings || !shape_->has_late_rings())
    return early_ + shape_->rings_offset() + offset;
  if (late_ == nullptr) return nullptr;
  return late_ + offset - shape_->num_early_rings * shape_->ring_bytes();
}

int32_t* SlotImage::history() const {
  return reinterpret_cast<int32_t*>(early_);
}

std::optional<SequenceState> SequenceState::create(KvStore& store, int64_t max_blocks) {
  const auto slot = store.take_slot();
  if (!slot) return std::nullopt;
  return SequenceState(store, *slot, max_blocks);
}

SequenceState::SequenceState(KvStore& store, SlotId slot, int64_t max_blocks)
    : store_(&store), slot_(slot) {
  blocks_.reserve(static_cast<size_t>(max_blocks));
  std::fill_n(history_data(), store.shape().history, kNoToken);
}

SequenceState::SequenceState(SequenceState&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      slot_(other.slot_),
      length_(other.length_),
      shared_until_(other.shared_until_),
      late_from_(other.late_from_),
      blocks_(std::move(other.blocks_)) {}

SequenceState& SequenceState::operator=(SequenceState&& other) noexcept {
  std::swap(store_, other.store_);
  std::swap(slot_, other.slot_);
  std::swap(length_, other.length_);
  std::swap(shared_until_, other.shared_until_);
  std::swap(late_from_, other.late_from_);
  std::swap(blocks_, other.blocks_);
  return *this;
}

SequenceState::~SequenceState() {
  if (store_ != nullptr) give_back();
}

void SequenceState::give_back() {
  for (const BlockId block : blocks_) store_->release_block(block);
  store_->release_slot(slot_);
}

bool SequenceState::reserve(int64_t positions) {
  while (blocks_missing(positions) > 0) {
    const auto block = store_->take_block();
    if (!block) return false;
    blocks_.push_back(*block);
  }
  return true;
}

void SequenceState::share(std::span<const BlockId> blocks) {
  CHECK(blocks_.empty() && length_ == 0, "only an empty state begins with shared blocks");
  for (const BlockId block : blocks) {
    store_->retain_block(block);
    blocks_.push_back(block);
  }
  shared_until_ = static_cast<int64_t>(blocks.size()) * kBlockTokens;
}

void SequenceState::replace_block(int64_t index, BlockId same) {
  BlockId& block = blocks_[static_cast<size_t>(index)];
  store_->retain_block(same);
  store_->release_block(block);
  block = same;
}

void SequenceState::restore(const SlotImage& image, int64_t length) {
  CHECK(length % kBlockTokens == 0 && blocks_missing(length) <= 0,
        "an image ends with a block that is there");
  const KvShape& shape = store_->shape();
  uint8_t* slot = store_->slot(slot_);
  std::memcpy(slot, image.early(), static_cast<size_t>(shape.early_bytes()));
  if (image.late() != nullptr) {
    std::memcpy(slot + shape.early_bytes(), image.late(), static_cast<size_t>(shape.late_bytes()));
  }
  length_ = length;
}

const uint8_t* SequenceState::window_row(int32_t layer, int64_t position) const {
  DCHECK(position >= 0, "positions start at 0");
  const KvShape& shape = store_->shape();
  return store_->slot(slot_) + shape.rings_offset() + layer * shape.ring_bytes() +
         position % shape.window * shape.window_record();
}

uint8_t* SequenceState::window_row(int32_t layer, int64_t position) {
  return const_cast<uint8_t*>(std::as_const(*this).window_row(layer, position));
}

// The record of an entry in its block; `offset` is where the source's records of that kind begin.
uint8_t* SequenceState::in_block(size_t source, int64_t entry, int64_t offset,
                                 int64_t record) const {
  const int64_t per_block = store_->shape().entries_per_block(source);
  const auto block = static_cast<size_t>(entry / per_block);
  DCHECK(block < blocks_.size(), "the entry's position is reserved");
  return store_->block(blocks_[block]) + offset + entry % per_block * record;
}

const uint8_t* SequenceState::latent(size_t source, int64_t entry) const {
  const KvShape& shape = store_->shape();
  return in_block(source, entry, shape.latents_offset(source), shape.latent_record());
}

uint8_t* SequenceState::latent(size_t source, int64_t entry) {
  return const_cast<uint8_t*>(std::as_const(*this).latent(source, entry));
}

const uint8_t* SequenceState::index_key(size_t source, int64_t entry) const {
  const KvShape& shape = store_->shape();
  return in_block(source, entry, shape.index_keys_offset(source), shape.index_record());
}

uint8_t* SequenceState::index_key(size_t source, int64_t entry) {
  return const_cast<uint8_t*>(std::as_const(*this).index_key(source, entry));
}

int64_t SequenceState::entries_together(size_t source, int64_t entry) const {
  const int64_t per_block = store_->shape().entries_per_block(source);
  return per_block - entry % per_block;
}

float* SequenceState::open_kv(size_t source) {
  return reinterpret_cast<float*>(store_->slot(slot_) + store_->shape().open_group_offset(source));
}

float* SequenceState::open_gate(size_t source) {
  const KvShape& shape = store_->shape();
  return open_kv(source) + int64_t{shape.sources[source].ratio - 1} * shape.head_dim;
}

int32_t SequenceState::num_open(size_t source) const {
  return static_cast<int32_t>(length_ % store_->shape().sources[source].ratio);
}

int32_t* SequenceState::history_data() const {
  return reinterpret_cast<int32_t*>(store_->slot(slot_));
}

int32_t SequenceState::history(int32_t back) const {
  const int32_t kept = store_->shape().history;
  DCHECK(back >= 1 && back <= kept, "the history reaches that far");
  return history_data()[kept - back];
}

void SequenceState::push_history(int32_t token_class) {
  const int32_t kept = store_->shape().history;
  if (kept == 0) return;
  int32_t* classes = history_data();
  std::copy(classes + 1, classes + kept, classes);
  classes[kept - 1] = token_class;
}

}  // namespace stoker
