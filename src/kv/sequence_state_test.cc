#include "kv/sequence_state.h"

#include <gtest/gtest.h>

#include <utility>

namespace stoker {
namespace {

KvShape tiny_shape() {
  KvShape shape{.num_rings = 2,
                .num_early_rings = 1,
                .head_dim = 32,
                .index_head_dim = 32,
                .window = 4,
                .history = 2,
                .sources = {}};
  shape.sources = {{0, 2}, {1, 1}};
  return shape;
}

class SequenceStateTest : public ::testing::Test {
 protected:
  SequenceState state(int64_t max_blocks = 10) {
    return *SequenceState::create(*store_, max_blocks);
  }

  std::unique_ptr<KvStore> store_ =
      *KvStore::create(tiny_shape(), *plan_kv(tiny_shape(), {.bytes = 100'000, .max_num_seqs = 3}));
};

TEST_F(SequenceStateTest, RingsKeepTheLastWindowOfEachLayer) {
  SequenceState s = state();
  for (int64_t position = 0; position < 10; ++position) {
    for (int32_t layer = 0; layer < 2; ++layer) {
      *s.window_row(layer, position) = static_cast<uint8_t>(10 * layer + position);
    }
  }
  for (int64_t position = 6; position < 10; ++position) {
    EXPECT_EQ(*s.window_row(0, position), position);
    EXPECT_EQ(*s.window_row(1, position), 10 + position);
  }
}

TEST_F(SequenceStateTest, HistoryHasTheNewestFirst) {
  SequenceState s = state();
  EXPECT_EQ(s.history(1), SequenceState::kNoToken);
  s.push_history(5);
  EXPECT_EQ(s.history(1), 5);
  EXPECT_EQ(s.history(2), SequenceState::kNoToken);
  s.push_history(6);
  s.push_history(7);
  EXPECT_EQ(s.history(1), 7);
  EXPECT_EQ(s.history(2), 6);
}

TEST_F(SequenceStateTest, EntriesOfEverySourceHaveTheirOwnPlaceAcrossBlocks) {
  SequenceState s = state();
  ASSERT_TRUE(s.reserve(300));
  EXPECT_EQ(s.blocks().size(), 3U);
  for (int64_t entry = 0; entry < 150; ++entry) {
    *s.latent(0, entry) = static_cast<uint8_t>(entry);
    *s.index_key(0, entry) = static_cast<uint8_t>(entry + 1);
  }
  for (int64_t entry = 0; entry < 300; ++entry) {
    *s.latent(1, entry) = static_cast<uint8_t>(entry + 2);
    *s.index_key(1, entry) = static_cast<uint8_t>(entry + 3);
  }
  for (int64_t entry = 0; entry < 150; ++entry) {
    EXPECT_EQ(*s.latent(0, entry), static_cast<uint8_t>(entry));
    EXPECT_EQ(*s.index_key(0, entry), static_cast<uint8_t>(entry + 1));
  }
  for (int64_t entry = 0; entry < 300; ++entry) {
    EXPECT_EQ(*s.latent(1, entry), static_cast<uint8_t>(entry + 2));
    EXPECT_EQ(*s.index_key(1, entry), static_cast<uint8_t>(entry + 3));
  }
  EXPECT_EQ(s.entries_together(0, 60), 4) << "64 entries of ratio 2 in a block";
  EXPECT_EQ(s.entries_together(1, 128), 128);
  EXPECT_EQ(s.index_key(0, 63) - s.index_key(0, 62), index_record_bytes(32))
      << "one record after the other";
}

TEST_F(SequenceStateTest, OpenGroupsFollowTheLength) {
  SequenceState s = state();
  s.advance(5);
  EXPECT_EQ(s.num_open(0), 1);
  EXPECT_EQ(s.num_open(1), 0);
  s.open_kv(0)[31] = 1;
  s.open_gate(0)[0] = 2;
  EXPECT_EQ(s.open_kv(0)[31], 1.0F);
}

TEST_F(SequenceStateTest, GivesEverythingBackAndIsFreshAgain) {
  const int64_t blocks = store_->num_free_blocks();
  {
    SequenceState first = state();
    ASSERT_TRUE(first.reserve(200));
    first.push_history(9);
    *first.window_row(1, 0) = 77;
    SequenceState moved = std::move(first);
    SequenceState other = state();
    other = std::move(moved);
    EXPECT_EQ(other.blocks().size(), 2U);
  }
  EXPECT_EQ(store_->num_free_blocks(), blocks);
  EXPECT_EQ(store_->num_free_slots(), 3);
  SequenceState again = state();
  EXPECT_EQ(again.history(1), SequenceState::kNoToken);
  EXPECT_EQ(*again.window_row(1, 0), 0);
}

TEST_F(SequenceStateTest, ReserveFillsTheStoreToTheLastBlock) {
  const int64_t all = store_->num_free_blocks();
  SequenceState s = state(all + 1);
  EXPECT_TRUE(s.reserve(all * kBlockTokens));
  EXPECT_EQ(store_->num_free_blocks(), 0);
  EXPECT_FALSE(s.reserve(all * kBlockTokens + 1));
  EXPECT_EQ(s.blocks_missing(all * kBlockTokens + 1), 1);
}

TEST_F(SequenceStateTest, AnImageGivesTheSlotBack) {
  std::vector<uint8_t> early(static_cast<size_t>(tiny_shape().image_unit_bytes()));
  std::vector<uint8_t> late(early.size());
  const KvShape shape = tiny_shape();
  const SlotImage whole(shape, early.data(), late.data());
  const SlotImage part(shape, early.data(), nullptr);
  EXPECT_TRUE(whole.is_whole());
  EXPECT_FALSE(part.is_whole());
  EXPECT_EQ(part.window_row(1, 5), nullptr);
  for (int64_t position = 124; position < 128; ++position) {
    *whole.window_row(0, position) = static_cast<uint8_t>(position);
    *whole.window_row(1, position) = static_cast<uint8_t>(position + 100);
  }
  whole.history()[0] = 7;
  whole.history()[1] = 8;
  SequenceState s = state();
  ASSERT_TRUE(s.reserve(128));
  s.restore(part, 128);
  EXPECT_EQ(s.length(), 128);
  EXPECT_EQ(s.history(1), 8);
  EXPECT_EQ(s.history(2), 7);
  EXPECT_EQ(*s.window_row(0, 126), 126);
  EXPECT_EQ(*s.window_row(1, 126), 0) << "not held";
  s.restore(whole, 128);
  EXPECT_EQ(*s.window_row(1, 126), 226);
}

TEST_F(SequenceStateTest, SharedBlocksGoWithTheirLastUser) {
  const int64_t all = store_->num_free_blocks();
  SequenceState second = state();
  {
    SequenceState first = state();
    ASSERT_TRUE(first.reserve(256));
    second.share(std::span(first.blocks()).first(1));
    EXPECT_EQ(second.shared_until(), 128);
    ASSERT_TRUE(second.reserve(256));
    EXPECT_EQ(store_->num_free_blocks(), all - 3);
    second.replace_block(1, first.blocks()[1]);
    EXPECT_EQ(store_->num_free_blocks(), all - 2);
    EXPECT_EQ(store_->block_references(first.blocks()[1]), 2);
  }
  EXPECT_EQ(store_->num_free_blocks(), all - 2);
}

TEST_F(SequenceStateTest, NoStateWithoutASlot) {
  const SequenceState a = state();
  const SequenceState b = state();
  const SequenceState c = state();
  EXPECT_FALSE(SequenceState::create(*store_, 1));
}

}  // namespace
}  // namespace stoker
