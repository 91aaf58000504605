#include "kv/sequence_state.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

KvShape released_shape() {
  KvShape shape{.num_layers = 40,
                .head_dim = 512,
                .index_head_dim = 128,
                .window = 128,
                .history = 3,
                .sources = {}};
  shape.sources = {{2, 2}, {8, 2}, {14, 2}, {20, 1}};
  return shape;
}

TEST(KvShape, SizesOfTheReleasedModel) {
  const KvShape shape = released_shape();
  EXPECT_EQ(shape.growing_bytes_per_token(), 890.0);
  EXPECT_EQ(shape.fixed_bytes(), 2'703'360 + 12'288 + 12);
}

TEST(SequenceState, RingsKeepTheLastWindowOfEachLayer) {
  KvShape shape{.num_layers = 2,
                .head_dim = 32,
                .index_head_dim = 32,
                .window = 4,
                .history = 2,
                .sources = {{1, 2}}};
  SequenceState state(shape, 100);
  for (int64_t position = 0; position < 10; ++position) {
    for (int32_t layer = 0; layer < 2; ++layer) {
      *state.window_row(layer, position) = static_cast<uint8_t>(10 * layer + position);
    }
  }
  for (int64_t position = 6; position < 10; ++position) {
    EXPECT_EQ(*state.window_row(0, position), position);
    EXPECT_EQ(*state.window_row(1, position), 10 + position);
  }
  EXPECT_EQ(state.source(0).open_kv.size(), 32U);
}

TEST(SequenceState, HistoryHasTheNewestFirst) {
  KvShape shape{.num_layers = 1,
                .head_dim = 32,
                .index_head_dim = 32,
                .window = 4,
                .history = 2,
                .sources = {}};
  SequenceState state(shape, 100);
  EXPECT_EQ(state.history(1), SequenceState::kNoToken);
  state.push_history(5);
  EXPECT_EQ(state.history(1), 5);
  EXPECT_EQ(state.history(2), SequenceState::kNoToken);
  state.push_history(6);
  state.push_history(7);
  EXPECT_EQ(state.history(1), 7);
  EXPECT_EQ(state.history(2), 6);
}

}  // namespace
}  // namespace stoker
