#include "kv/kv_shape.h"

#include <algorithm>

namespace stoker {
namespace {

// Slots and blocks begin on a cache line.
constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

int64_t KvShape::latents_offset(size_t source) const {
  int64_t offset = 0;
  for (size_t i = 0; i < source; ++i)
    offset += entries_per_block(i) * (latent_record() + index_record());
  return offset;
}

int64_t KvShape::index_keys_offset(size_t source) const {
  return latents_offset(source) + entries_per_block(source) * latent_record();
}

int64_t KvShape::block_bytes() const {
  return std::max(
      kAlignment,
      aligned(latents_offset(sources.size())));  // never 0, so that blocks can be counted
}

int64_t KvShape::open_rows(size_t source) const {
  const int32_t ratio = sources[source].ratio;
  return ratio > 1 ? ratio - 1 + max_drafts : 0;
}

int64_t KvShape::open_group_bytes(size_t source) const {
  return open_rows(source) * 2 * head_dim * int64_t{sizeof(float)};
}

int64_t KvShape::open_group_offset(size_t source) const {
  int64_t offset = aligned(history_offset() + history_rows() * int64_t{sizeof(int32_t)});
  for (size_t i = 0; i < source; ++i) offset += open_group_bytes(i);
  return offset;
}

int64_t KvShape::rings_offset() const {
  return aligned(open_group_offset(sources.size()));
}

int64_t KvShape::slot_bytes() const {
  return aligned(rings_offset() + num_rings * ring_bytes());
}

int64_t KvShape::image_unit_bytes() const {
  return aligned(has_late_rings() ? std::max(early_bytes(), late_bytes()) : slot_bytes());
}

int64_t KvPlan::sequences_of(int64_t tokens) const {
  return std::min<int64_t>(num_slots, num_blocks / std::max<int64_t>(1, blocks_for(tokens)));
}

Result<KvPlan> plan_kv(const KvShape& shape, const KvBudget& budget) {
  const int64_t block = shape.block_bytes() + (budget.prefix_cache ? kIndexBytesPerBlock : 0);
  const int64_t least = shape.slot_bytes() + block;
  if (budget.bytes < least) {
    return Error{ErrorCode::kInvalidArgument,
                 "kv_budget: expected at least " + std::to_string(least) +
                     " bytes (one sequence of " + std::to_string(kBlockTokens) +
                     " tokens), found " + std::to_string(budget.bytes),
                 "kv_budget"};
  }
  KvPlan plan;
  plan.num_slots = static_cast<int32_t>(
      std::clamp<int64_t>(std::min(budget.bytes / 2, budget.bytes - block) / shape.slot_bytes(), 1,
                          std::max(budget.max_num_seqs, 1)));
  int64_t left = budget.bytes - plan.num_slots * shape.slot_bytes();
  if (budget.prefix_cache) {
    const int64_t asked = budget.image_bytes >= 0 ? budget.image_bytes : budget.bytes / 8;
    plan.num_image_units = std::min(asked, left - block) / shape.image_unit_bytes();
    left -= plan.num_image_units * shape.image_unit_bytes();
  }
  plan.num_blocks = std::min<int64_t>(left / block, INT32_MAX);
  if (budget.prefix_cache) plan.index_bytes = plan.num_blocks * kIndexBytesPerBlock;
  plan.total_bytes = plan.num_slots * shape.slot_bytes() +
                     plan.num_image_units * shape.image_unit_bytes() +
                     plan.num_blocks * shape.block_bytes() + plan.index_bytes;
  return plan;
}

}  // namespace stoker
