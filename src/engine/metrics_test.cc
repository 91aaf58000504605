#include "engine/metrics.h"

#include <gtest/gtest.h>

#include <numeric>

namespace stoker::engine {
namespace {

TEST(Metrics, ADistributionCountsEachValueOnceUnderItsBound) {
  constexpr double kBounds[] = {1, 2, 4};
  Distribution distribution(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 2.0, 4.0, 4.1, 100.0}) distribution.record(value);
  const Histogram read = distribution.read();
  EXPECT_EQ(read.bounds, (std::vector<double>{1, 2, 4}));
  EXPECT_EQ(read.counts, (std::vector<int64_t>{2, 2, 1, 2}));
  EXPECT_EQ(read.count, 7);
  EXPECT_DOUBLE_EQ(read.sum, 113.1);
}

TEST(Metrics, EveryEndHasItsCount) {
  Metrics metrics;
  for (const End end : {End::kStopId, End::kLength, End::kLength, End::kCancelled, End::kError})
    metrics.count_end(end);
  const EngineStats stats = metrics.read();
  EXPECT_EQ(stats.total_stopped, 1);
  EXPECT_EQ(stats.total_length, 2);
  EXPECT_EQ(stats.total_cancelled, 1);
  EXPECT_EQ(stats.total_failed, 1);
}

}  // namespace
}  // namespace stoker::engine
