#include "base/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/worker_pool.h"

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

// Pages of a span that begins on a page, and those of them that are in memory.
struct Pages {
  explicit Pages(std::span<uint8_t> memory) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGE_SIZE));
    std::vector<unsigned char> there(memory.size() / page);
    num_pages = static_cast<int64_t>(there.size());
    if (::mincore(memory.data(), there.size() * page, there.data()) == 0)
      num_there = std::ranges::count_if(there, [](unsigned char at) { return (at & 1) != 0; });
  }
  int64_t num_pages = 0;
  int64_t num_there = 0;
};

TEST(Arena, AllIsTouchedByOneThreadOrMore) {
  constexpr int64_t kBytes = int64_t{37} << 20;  // pieces of 16 MiB, and a rest
  WorkerPool pool(3);
  Arena arenas[] = {Arena(kBytes), Arena(kBytes, pool)};
  for (Arena& arena : arenas) {
    const std::span<uint8_t> all = arena.take<uint8_t>(kBytes);
    const Pages pages(all);
    EXPECT_EQ(pages.num_there, pages.num_pages);
    EXPECT_EQ(std::ranges::count(all, 0), kBytes);
  }
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
