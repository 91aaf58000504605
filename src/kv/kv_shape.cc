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

int64_t KvShape::open_group_bytes(size_t source) const {
  return int64_t{sources[source].ratio - 1} * 2 * head_dim * int64_t{sizeof(float)};
}

int64_t KvShape::open_group_offset(size_t source) const {
  int64_t offset = aligned(rings_bytes());
  for (size_t i = 0; i < source; ++i) offset += open_group_bytes(i);
  return offset;
}

int64_t KvShape::history_offset() const {
  return open_group_offset(sources.size());
}

int64_t KvShape::slot_bytes() const {
  return aligned(history_offset() + history * int64_t{sizeof(int32_t)});
}

int64_t KvPlan::sequences_of(int64_t tokens) const {
  return std::min<int64_t>(num_slots, num_blocks / std::max<int64_t>(1, blocks_for(tokens)));
}

Result<KvPlan> plan_kv(const KvShape& shape, int64_t budget_bytes, int32_t max_num_seqs) {
  const int64_t least = shape.slot_bytes() + shape.block_bytes();
  if (budget_bytes < least) {
    return Error{ErrorCode::kInvalidArgument,
                 "kv_budget: expected at least " + std::to_string(least) +
                     " bytes (one sequence of " + std::to_string(kBlockTokens) +
                     " tokens), found " + std::to_string(budget_bytes),
                 "kv_budget"};
  }
  // Each slot is of use only with at least one block.
  const int64_t most_slots = budget_bytes / least;
  KvPlan plan;
  plan.num_slots = static_cast<int32_t>(std::min<int64_t>(max_num_seqs, most_slots));
  const int64_t left = budget_bytes - plan.num_slots * shape.slot_bytes();
  plan.num_blocks = std::min<int64_t>(left / shape.block_bytes(), INT32_MAX);
  plan.total_bytes = plan.num_slots * shape.slot_bytes() + plan.num_blocks * shape.block_bytes();
  return plan;
}

}  // namespace stoker
