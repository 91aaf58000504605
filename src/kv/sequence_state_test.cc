#include "kv/sequence_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace stoker {
namespace {

KvShape two_ring_shape() {
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

// Records lie at any byte.
void put(uint8_t* record, int32_t number) {
  std::memcpy(record, &number, sizeof number);
}
int32_t number_at(const uint8_t* record) {
  int32_t number = 0;
  std::memcpy(&number, record, sizeof number);
  return number;
}

class SequenceStateTest : public ::testing::Test {
 protected:
  SequenceState state(int64_t max_blocks = 10) {
    return *SequenceState::create(*store_, max_blocks);
  }

  std::unique_ptr<KvStore> store_ = *KvStore::create(
      two_ring_shape(), *plan_kv(two_ring_shape(), {.bytes = 100'000, .max_num_seqs = 3}));
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
  s.set_history(0, 5);
  s.advance(1);
  EXPECT_EQ(s.history(1), 5);
  EXPECT_EQ(s.history(2), SequenceState::kNoToken);
  s.set_history(1, 6);
  s.set_history(2, 7);
  s.advance(2);
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

TEST_F(SequenceStateTest, OpenGroupsHaveRoomForAllTokensButTheLast) {
  SequenceState s = state();
  EXPECT_EQ(s.num_open_rows(0), 1);
  EXPECT_EQ(s.num_open_rows(1), 0);
  s.open_kv(0, 4)[31] = 1;
  s.open_gate(0, 4)[0] = 2;
  EXPECT_EQ(s.open_kv(0, 4)[31], 1.0F);
}

// A sequence with everything that it keeps by position, told apart by a tag for each run.
class RolledBack : public ::testing::Test {
 protected:
  static constexpr int32_t kDrafts = 3;

  static KvShape shape() {
    KvShape shape = two_ring_shape();
    shape.num_rings = 3;
    shape.num_draft_rings = 1;
    shape.max_drafts = kDrafts;
    shape.sources = {{0, 4}, {1, 2}};
    return shape;
  }

  static int32_t value(int64_t position, int32_t run) {
    return static_cast<int32_t>(position) + 1000 * run;
  }

  // Runs `rows` more positions as the model does.
  static void run(SequenceState& s, int64_t rows, int32_t tag) {
    ASSERT_TRUE(s.reserve(s.length() + rows));
    const int64_t end = s.length() + rows;
    for (int64_t position = s.length(); position < end; ++position) {
      s.set_history(position, value(position, tag));
      for (int32_t ring = 0; ring < 3; ++ring)
        put(s.window_row(ring, position), value(position, tag) + ring);
      for (size_t source = 0; source < 2; ++source) {
        s.open_kv(source, position)[31] = static_cast<float>(value(position, tag));
        s.open_gate(source, position)[0] = static_cast<float>(value(position, tag));
      }
    }
    s.advance(rows);
  }

  // Everything that a reader at the end sees; tags[p] is the run that wrote position p last.
  static void expect_whole(SequenceState& s, const std::vector<int32_t>& tags) {
    const auto want = [&](int64_t position) {
      return value(position, tags[static_cast<size_t>(position)]);
    };
    const int64_t n = s.length();
    for (int32_t back = 1; back <= 2; ++back) {
      EXPECT_EQ(s.history(back), back <= n ? want(n - back) : SequenceState::kNoToken);
    }
    for (int64_t position = std::max<int64_t>(0, n - 4); position < n; ++position) {
      for (int32_t ring = 0; ring < 3; ++ring) {
        EXPECT_EQ(number_at(s.window_row(ring, position)), want(position) + ring)
            << "ring " << ring << " at " << position << " of " << n;
      }
    }
    for (size_t source = 0; source < 2; ++source) {
      const int64_t ratio = source == 0 ? 4 : 2;
      for (int64_t position = n / ratio * ratio; position < n; ++position) {
        EXPECT_EQ(s.open_kv(source, position)[31], static_cast<float>(want(position)));
        EXPECT_EQ(s.open_gate(source, position)[0], static_cast<float>(want(position)));
      }
    }
    EXPECT_EQ(static_cast<int64_t>(s.blocks().size()), blocks_for(n));
  }

  std::unique_ptr<KvStore> store_ =
      *KvStore::create(shape(), *plan_kv(shape(), {.bytes = 100'000, .max_num_seqs = 3}));
};

TEST_F(RolledBack, NothingThatIsReadIsLost) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    SequenceState s = *SequenceState::create(*store_, 10);
    std::vector<int32_t> tags;
    int32_t tag = 0;
    const auto more = [&](int64_t rows) {
      run(s, rows, ++tag);
      tags.resize(static_cast<size_t>(s.length()), tag);
    };
    more(static_cast<int64_t>(random() % 140));
    for (int step = 0; step < 40; ++step) {
      const auto drafts = static_cast<int64_t>(random() % (kDrafts + 1));
      more(1 + drafts);
      s.roll_back(static_cast<int64_t>(random() % static_cast<uint64_t>(drafts + 1)));
      tags.resize(static_cast<size_t>(s.length()));
      SCOPED_TRACE("seed " + std::to_string(seed));
      expect_whole(s, tags);
      if (HasFailure()) return;
    }
  }
}

TEST_F(RolledBack, DraftRowsEndWithTheSequence) {
  SequenceState s = *SequenceState::create(*store_, 10);
  run(s, 20, 1);
  s.set_draft_from(18);
  s.roll_back(1);
  EXPECT_EQ(s.draft_from(), 18);
  s.roll_back(2);
  EXPECT_EQ(s.draft_from(), 17) << "none are left";
}

TEST_F(RolledBack, AnImageWithoutLateRingsHasNoDraftRows) {
  std::vector<uint8_t> early(static_cast<size_t>(shape().image_unit_bytes()));
  std::vector<uint8_t> late(early.size());
  const KvShape kept = shape();
  SlotImage(kept, early.data(), late.data()).set_draft_from(126);
  SequenceState s = *SequenceState::create(*store_, 10);
  ASSERT_TRUE(s.reserve(128));
  s.restore(SlotImage(kept, early.data(), late.data()), 128);
  EXPECT_EQ(s.draft_from(), 126);
  s.restore(SlotImage(kept, early.data(), nullptr), 128);
  EXPECT_EQ(s.draft_from(), 128);
}

TEST_F(SequenceStateTest, GivesEverythingBackAndIsFreshAgain) {
  const int64_t blocks = store_->num_free_blocks();
  {
    SequenceState first = state();
    ASSERT_TRUE(first.reserve(200));
    first.set_history(0, 9);
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
  std::vector<uint8_t> early(static_cast<size_t>(two_ring_shape().image_unit_bytes()));
  std::vector<uint8_t> late(early.size());
  const KvShape shape = two_ring_shape();
  const SlotImage whole(shape, early.data(), late.data());
  const SlotImage part(shape, early.data(), nullptr);
  EXPECT_TRUE(whole.is_whole());
  EXPECT_FALSE(part.is_whole());
  EXPECT_EQ(part.window_row(1, 5), nullptr);
  for (int64_t position = 124; position < 128; ++position) {
    *whole.window_row(0, position) = static_cast<uint8_t>(position);
    *whole.window_row(1, position) = static_cast<uint8_t>(position + 100);
  }
  whole.set_history(126, 7);
  whole.set_history(127, 8);
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
