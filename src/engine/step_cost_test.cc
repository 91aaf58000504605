// The bound on prefill rows follows what steps were measured to cost.
#include "engine/step_cost.h"

#include <gtest/gtest.h>

namespace stoker::engine {
namespace {

TEST(StepCost, WithoutDecodesAllRowsAreForPrefill) {
  const StepCost cost(1000);
  EXPECT_EQ(cost.prefill_rows(0), 1000);
}

TEST(StepCost, BeforeAnythingIsMeasuredItTriesAFew) {
  const StepCost cost(1000);
  EXPECT_EQ(cost.prefill_rows(10), StepCost::kLeastRows);
  EXPECT_EQ(StepCost(8).prefill_rows(4), 4) << "no more than fit beside the decodes";
  EXPECT_EQ(StepCost(8).prefill_rows(8), 1) << "prompts always get on";
}

// Decode steps of 100 ms and prefill rows of 2 ms: two more decode steps' time is 100 rows.
TEST(StepCost, AStepIsStretchedByAFactorAndNoMore) {
  StepCost cost(1000);
  for (int i = 0; i < 50; ++i) {
    cost.observe(16, 0, 0.100);
    cost.observe(16, 40, 0.100 + 40 * 0.002);
  }
  EXPECT_NEAR(static_cast<double>(cost.prefill_rows(16)), 100, 1);
  EXPECT_NEAR(static_cast<double>(cost.prefill_rows(20)), 100, 1) << "the same class of size";
  EXPECT_NEAR(static_cast<double>(cost.prefill_rows(200)), 100, 1) << "the nearest one known";
}

TEST(StepCost, ShortStepsMayTakeALeastTime) {
  StepCost cost(1000);
  for (int i = 0; i < 50; ++i) {
    cost.observe(4, 0, 0.001);
    cost.observe(0, 100, 0.010);
  }
  EXPECT_NEAR(static_cast<double>(cost.prefill_rows(4)), (StepCost::kLeastSeconds - 0.001) / 0.0001,
              5);
}

TEST(StepCost, FollowsAChangeAndStandsAnOutlier) {
  StepCost cost(100'000);
  for (int i = 0; i < 50; ++i) {
    cost.observe(16, 0, 0.100);
    cost.observe(0, 100, 0.100);
  }
  const int64_t before = cost.prefill_rows(16);
  cost.observe(16, 10, 0.050);  // faster than decodes alone: says nothing
  EXPECT_EQ(cost.prefill_rows(16), before);
  for (int i = 0; i < 50; ++i) cost.observe(0, 100, 0.400);
  EXPECT_NEAR(static_cast<double>(cost.prefill_rows(16)), static_cast<double>(before) / 4, 2);
}

TEST(StepCost, NeverNoneHoweverDear) {
  StepCost cost(1000);
  cost.observe(16, 0, 0.1);
  cost.observe(0, 1, 100);
  EXPECT_EQ(cost.prefill_rows(16), StepCost::kLeastRows);
}

}  // namespace
}  // namespace stoker::engine
