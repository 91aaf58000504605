#include "base/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace stoker {
namespace {

TEST(Arena, PiecesAreAlignedAndApart) {
  Arena arena(1000);
  const std::span<float> a = arena.take<float>(3);
  const std::span<int64_t> b = arena.take<int64_t>(1);
  const std::span<uint8_t> none = arena.take<uint8_t>(0);
  EXPECT_EQ(a.size(), 3U);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % 64, 0U);
  EXPECT_GE(reinterpret_cast<uintptr_t>(b.data()), reinterpret_cast<uintptr_t>(a.data() + 3));
}

TEST(Arena, GivesTheSameMemoryAfterWindingBack) {
  Arena arena(4096);
  arena.take<float>(10);
  const float* first = nullptr;
  {
    const ArenaScope scope(arena);
    first = arena.take<float>(100).data();
  }
  EXPECT_EQ(arena.take<float>(100).data(), first);
}

TEST(Arena, GrowsAndKeepsWhatItGrewBy) {
  Arena arena(64);
  for (int round = 0; round < 3; ++round) {
    const ArenaScope scope(arena);
    const std::span<uint8_t> small = arena.take<uint8_t>(64);
    const std::span<uint8_t> large = arena.take<uint8_t>(int64_t{5} << 20);
    small[0] = 1;
    large.front() = 2;
    large.back() = 3;
    EXPECT_EQ(small[0], 1);
    EXPECT_EQ(arena.num_growths(), 1);
  }
}

}  // namespace
}  // namespace stoker
