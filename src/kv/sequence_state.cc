#include "kv/sequence_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace stoker {
namespace {

// Where a slot has a ring's row of a position, counted from the rings.
int64_t ring_offset(const KvShape& shape, int32_t ring, int64_t position) {
  return ring * shape.ring_bytes() + position % shape.ring_rows() * shape.window_record();
}

// Where a slot has the class of a position; the shape has a history.
int32_t* history_at(const KvShape& shape, uint8_t* slot, int64_t position) {
  return reinterpret_cast<int32_t*>(slot + shape.history_offset()) +
         position % shape.history_rows();
}

}  // namespace

uint8_t* SlotImage::window_row(int32_t ring, int64_t position) const {
  const int64_t offset = ring_offset(*shape_, ring, position);
  if (ring < shape_->num_early_rings || !shape_->has_late_rings())
    return early_ + shape_->rings_offset() + offset;
  if (late_ == nullptr) return nullptr;
  return late_ + offset - shape_->num_early_rings * shape_->ring_bytes();
}

void SlotImage::set_history(int64_t position, int32_t token_class) const {
  *history_at(*shape_, early_, position) = token_class;
}

void SlotImage::set_draft_from(int64_t position) const {
  *reinterpret_cast<int64_t*>(early_) = position;
}

int64_t SlotImage::draft_from() const {
  return *reinterpret_cast<const int64_t*>(early_);
}

std::optional<SequenceState> SequenceState::create(KvStore& store, int64_t max_blocks) {
  const auto slot = store.take_slot();
  if (!slot) return std::nullopt;
  return SequenceState(store, *slot, max_blocks);
}

SequenceState::SequenceState(KvStore& store, SlotId slot, int64_t max_blocks)
    : store_(&store), slot_(slot) {
  blocks_.reserve(static_cast<size_t>(max_blocks));
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

void SequenceState::roll_back(int64_t rows) {
  CHECK(rows >= 0 && rows <= store_->shape().max_drafts && rows <= length_ - shared_until_,
        "no more is rolled back than was drafted");
  length_ -= rows;
  if (draft_from() > length_) set_draft_from(length_);
  for (; blocks_missing(length_) < 0; blocks_.pop_back()) store_->release_block(blocks_.back());
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
  std::memcpy(slot(), image.early(), static_cast<size_t>(shape.early_bytes()));
  if (image.late() != nullptr) {
    std::memcpy(slot() + shape.early_bytes(), image.late(),
                static_cast<size_t>(shape.late_bytes()));
  }
  length_ = length;
  if (!image.is_whole()) set_draft_from(length);
}

int64_t SequenceState::draft_from() const {
  return store_->shape().num_draft_rings > 0 ? *reinterpret_cast<const int64_t*>(slot()) : 0;
}

void SequenceState::set_draft_from(int64_t position) {
  if (store_->shape().num_draft_rings > 0) *reinterpret_cast<int64_t*>(slot()) = position;
}

const uint8_t* SequenceState::window_row(int32_t layer, int64_t position) const {
  DCHECK(position >= 0, "positions start at 0");
  const KvShape& shape = store_->shape();
  return slot() + shape.rings_offset() + ring_offset(shape, layer, position);
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

float* SequenceState::open_row(size_t source, int64_t position) const {
  const KvShape& shape = store_->shape();
  const int64_t rows = shape.open_rows(source);
  CHECK(rows > 0, "only a source with groups of several tokens has an open one");
  return reinterpret_cast<float*>(slot() + shape.open_group_offset(source)) +
         position % rows * shape.head_dim;
}

float* SequenceState::open_kv(size_t source, int64_t position) {
  return open_row(source, position);
}

float* SequenceState::open_gate(size_t source, int64_t position) {
  const KvShape& shape = store_->shape();
  return open_row(source, position) + shape.open_rows(source) * shape.head_dim;
}

int32_t SequenceState::history(int32_t back) const {
  DCHECK(back >= 1 && back <= history_size(), "the history reaches that far");
  return back > length_ ? kNoToken : *history_at(store_->shape(), slot(), length_ - back);
}

void SequenceState::set_history(int64_t position, int32_t token_class) {
  *history_at(store_->shape(), slot(), position) = token_class;
}

}  // namespace stoker
