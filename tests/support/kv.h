// A KV store of a given number of everything, for tests.
#pragma once

#include <cstdint>
#include <memory>

#include "kv/kv_store.h"

namespace stoker::testing {

inline std::unique_ptr<KvStore> store_of(const KvShape& shape, int32_t num_slots,
                                         int64_t num_image_units, int64_t num_blocks) {
  KvPlan plan;
  plan.num_slots = num_slots;
  plan.num_image_units = num_image_units;
  plan.num_blocks = num_blocks;
  plan.total_bytes = num_slots * shape.slot_bytes() + num_image_units * shape.image_unit_bytes() +
                     num_blocks * shape.block_bytes();
  return *KvStore::create(shape, plan);
}

}  // namespace stoker::testing
