// Repetition against its definition, on random answers of few tokens.
#include "engine/repetition.h"

#include <gtest/gtest.h>

#include <random>

namespace stoker::engine {
namespace {

// The end of the answer is a pattern of that size, `count` times.
bool ends_with_pattern(std::span<const int32_t> answer, size_t size, size_t count) {
  if (answer.size() < size * count) return false;
  const auto end = answer.last(size * count);
  for (size_t i = size; i < end.size(); ++i) {
    if (end[i] != end[i - size]) return false;
  }
  return true;
}

TEST(Repetition, IsWhatItsDefinitionSays) {
  std::mt19937 random(3);
  int num_repeated = 0;
  for (int round = 0; round < 500; ++round) {
    RepetitionLimit limit;
    limit.min_size = 1 + static_cast<int32_t>(random() % 4);
    limit.max_size = limit.min_size + static_cast<int32_t>(random() % 5);
    limit.min_count = 2 + static_cast<int32_t>(random() % 3);
    RepetitionWatch watch(limit);
    std::vector<int32_t> answer;
    for (int i = 0; i < 60; ++i) {
      const bool repeats = answer.size() > 3 && random() % 8 != 0;
      answer.push_back(repeats ? answer[answer.size() - 3] : static_cast<int32_t>(random() % 3));
      bool expected = false;
      for (int32_t size = limit.min_size; size <= limit.max_size; ++size) {
        expected |= ends_with_pattern(answer, static_cast<size_t>(size),
                                      static_cast<size_t>(limit.min_count));
      }
      ASSERT_EQ(watch.accept(answer), expected) << "round " << round << ", token " << i;
      num_repeated += expected ? 1 : 0;
    }
  }
  EXPECT_GT(num_repeated, 1000);
}

TEST(Repetition, LargeCountsDoNotOverflow) {
  RepetitionWatch watch({1024, 1, INT32_MAX});
  std::vector<int32_t> answer;
  for (int i = 0; i < 3000; ++i) {
    answer.push_back(5);
    ASSERT_FALSE(watch.accept(answer));
  }
}

}  // namespace
}  // namespace stoker::engine
