// The store to its last block, and the arithmetic of the plan.
#include "kv/kv_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace stoker {
namespace {

KvShape released_shape() {
  KvShape shape{.num_rings = 40,
                .num_early_rings = 40,
                .head_dim = 512,
                .index_head_dim = 128,
                .window = 128,
                .history = 3,
                .sources = {}};
  shape.sources = {{2, 2}, {8, 2}, {14, 2}, {20, 1}};
  return shape;
}

KvShape tiny_shape() {
  return {.num_rings = 2,
          .num_early_rings = 2,
          .head_dim = 32,
          .index_head_dim = 32,
          .window = 4,
          .history = 2,
          .sources = {{1, 2}}};
}

TEST(KvShape, SizesOfTheReleasedModel) {
  const KvShape shape = released_shape();
  EXPECT_EQ(shape.block_bytes(), 113'920);
  EXPECT_EQ(shape.block_bytes(), 890 * kBlockTokens) << "890 bytes a token exactly";
  EXPECT_EQ(40 * shape.ring_bytes(), 2'703'360);
  EXPECT_EQ(shape.open_group_offset(4) - shape.open_group_offset(0), 12'288);
  EXPECT_LE(shape.slot_bytes(), 2'703'360 + 12'288 + 12 + 63);
}

TEST(KvShape, NoTwoPartsOfABlockOverlap) {
  const KvShape shape = released_shape();
  int64_t end = 0;
  for (size_t source = 0; source < shape.sources.size(); ++source) {
    EXPECT_EQ(shape.latents_offset(source), end);
    EXPECT_EQ(shape.index_keys_offset(source), end + shape.entries_per_block(source) * 288);
    end = shape.index_keys_offset(source) + shape.entries_per_block(source) * 68;
  }
  EXPECT_EQ(end, shape.block_bytes());
}

TEST(KvPlan, SpendsTheBudgetAndNoMore) {
  const KvShape shape = released_shape();
  const int64_t budget = int64_t{100} << 30;
  const auto plan = plan_kv(shape, {.bytes = budget, .max_num_seqs = 256});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->num_slots, 256);
  EXPECT_LE(plan->total_bytes, budget);
  EXPECT_GT(plan->total_bytes, budget - shape.block_bytes());
  EXPECT_EQ(plan->tokens(), plan->num_blocks * 128);
  EXPECT_EQ(plan->sequences_of(1), 256);
  EXPECT_EQ(plan->sequences_of(plan->tokens()), 1);
  EXPECT_EQ(plan->sequences_of(plan->tokens() + 1), 0);
}

TEST(KvPlan, ASmallBudgetHasFewerSlotsAndATooSmallOneIsRefusedWithItsNeed) {
  const KvShape shape = tiny_shape();
  const int64_t least = shape.slot_bytes() + shape.block_bytes();
  const int64_t three_twice = 6 * released_shape().slot_bytes();
  EXPECT_EQ(plan_kv(released_shape(), {.bytes = three_twice, .max_num_seqs = 256})->num_slots, 3)
      << "at most a half of it in slots";
  EXPECT_EQ(plan_kv(shape, {.bytes = least, .max_num_seqs = 256})->num_blocks, 1);
  const auto refused = plan_kv(shape, {.bytes = least - 1, .max_num_seqs = 256});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find(std::to_string(least)), std::string::npos);
}

TEST(KvPlan, ImagesHaveTheirShareAndTheIndexIsCounted) {
  const KvShape shape = released_shape();
  const int64_t budget = int64_t{100} << 30;
  const auto plan = plan_kv(shape, {.bytes = budget, .max_num_seqs = 256, .prefix_cache = true});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->num_image_units, budget / 8 / shape.image_unit_bytes());
  EXPECT_EQ(plan->index_bytes, plan->num_blocks * kIndexBytesPerBlock);
  EXPECT_LE(plan->total_bytes, budget);
  EXPECT_GT(plan->total_bytes, budget - shape.block_bytes() - kIndexBytesPerBlock);
}

TEST(KvShape, AnImageOfAShortenedSlotNeedsOneUnitAndAWholeOneTwo) {
  KvShape shape = released_shape();
  EXPECT_EQ(shape.image_unit_bytes(), shape.slot_bytes());
  shape.num_early_rings = 21;
  EXPECT_TRUE(shape.has_late_rings());
  EXPECT_EQ(shape.early_bytes() + shape.late_bytes(), shape.slot_bytes());
  EXPECT_EQ(shape.late_bytes(), 19 * shape.ring_bytes());
  EXPECT_EQ(shape.image_unit_bytes(), shape.early_bytes());
}

TEST(KvStore, MemoryThatIsGivenBackComesAgainAsZeros) {
  const KvShape shape = tiny_shape();
  const auto plan = plan_kv(shape, {.bytes = int64_t{1} << 20, .max_num_seqs = 2});
  ASSERT_TRUE(plan);
  const auto store = *KvStore::create(shape, *plan);
  const BlockId block = *store->take_block();
  const auto bytes = static_cast<size_t>(shape.block_bytes());
  std::memset(store->block(block), 7, bytes);
  store->release_block(block);
  store->give_back();
  const BlockId again = *store->take_block();
  ASSERT_EQ(again, block);
  EXPECT_EQ(std::count(store->block(again), store->block(again) + bytes, 0),
            static_cast<ptrdiff_t>(bytes));
}

TEST(KvStore, HandsOutExactlyWhatWasPlanned) {
  const KvShape shape = tiny_shape();
  const auto plan = plan_kv(shape, {.bytes = 50'000, .max_num_seqs = 4, .prefix_cache = true});
  auto store = KvStore::create(shape, *plan);
  ASSERT_TRUE(store);
  std::vector<BlockId> blocks;
  while (const auto block = (*store)->take_block()) blocks.push_back(*block);
  EXPECT_EQ(static_cast<int64_t>(blocks.size()), plan->num_blocks);
  std::vector<SlotId> slots;
  while (const auto slot = (*store)->take_slot()) slots.push_back(*slot);
  EXPECT_EQ(static_cast<int32_t>(slots.size()), plan->num_slots);
  std::vector<ImageUnitId> units;
  while (const auto unit = (*store)->take_image_unit()) units.push_back(*unit);
  EXPECT_EQ(static_cast<int64_t>(units.size()), plan->num_image_units);
  EXPECT_GT(units.size(), 0U);
  // Every byte of every part is there and belongs to one part alone.
  for (size_t i = 0; i < slots.size(); ++i) {
    std::fill_n((*store)->slot(slots[i]), shape.slot_bytes(), static_cast<uint8_t>(i + 1));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::fill_n((*store)->block(blocks[i]), shape.block_bytes(),
                static_cast<uint8_t>(100 + i % 100));
  }
  for (const ImageUnitId unit : units)
    std::fill_n((*store)->image_unit(unit), shape.image_unit_bytes(), uint8_t{99});
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_EQ((*store)->slot(slots[i])[0], i + 1);
    EXPECT_EQ((*store)->slot(slots[i])[shape.slot_bytes() - 1], i + 1);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ((*store)->block(blocks[i])[0], 100 + i % 100);
    EXPECT_EQ((*store)->block(blocks[i])[shape.block_bytes() - 1], 100 + i % 100);
  }
}

TEST(KvStore, RandomUseKeepsItsBooks) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const KvShape shape = tiny_shape();
  auto store = *KvStore::create(shape, *plan_kv(shape, {.bytes = 30'000, .max_num_seqs = 2}));
  std::vector<BlockId> held;  // one entry for each reference
  for (int step = 0; step < 5000; ++step) {
    const uint32_t action = random() % 3;
    if (action == 0) {
      if (const auto block = store->take_block()) held.push_back(*block);
    } else if (!held.empty()) {
      const size_t at = random() % held.size();
      if (action == 1) {
        store->retain_block(held[at]);
        held.push_back(held[at]);
      } else {
        store->release_block(held[at]);
        held.erase(held.begin() + static_cast<int64_t>(at));
      }
    }
    std::vector<int32_t> references(static_cast<size_t>(store->plan().num_blocks), 0);
    for (const BlockId block : held) ++references[static_cast<size_t>(block)];
    ASSERT_EQ(store->integrity_problem(references), "");
  }
}

TEST(KvStore, TheIntegrityCheckSeesALostReference) {
  auto store =
      *KvStore::create(tiny_shape(), *plan_kv(tiny_shape(), {.bytes = 30'000, .max_num_seqs = 2}));
  std::vector<int32_t> references(static_cast<size_t>(store->plan().num_blocks), 0);
  EXPECT_EQ(store->integrity_problem(references), "");
  store->take_block();
  EXPECT_NE(store->integrity_problem(references), "");
}

}  // namespace
}  // namespace stoker
