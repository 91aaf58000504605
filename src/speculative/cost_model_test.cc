#include "speculative/cost_model.h"

#include <gtest/gtest.h>

#include <random>

namespace stoker::speculative {
namespace {

TEST(Curve, LiesOnLinesBetweenWhatIsKnownAndBeyond) {
  Curve curve(256);
  EXPECT_FALSE(curve.is_known());
  EXPECT_EQ(curve.at(3), 0);
  curve.learn(2, 4);
  EXPECT_EQ(curve.at(1), 4) << "fewer cost no more";
  EXPECT_EQ(curve.at(100), 4) << "nothing says how it rises";
  curve.learn(6, 8);
  EXPECT_DOUBLE_EQ(curve.at(2), 4);
  EXPECT_DOUBLE_EQ(curve.at(4), 6);
  EXPECT_DOUBLE_EQ(curve.at(6), 8);
  EXPECT_DOUBLE_EQ(curve.at(10), 12);
  curve.learn(16, 9);
  EXPECT_DOUBLE_EQ(curve.at(11), 8.5);
  EXPECT_DOUBLE_EQ(curve.at(26), 10);
}

TEST(Curve, NeverFalls) {
  Curve curve(64);
  curve.learn(4, 10);
  curve.learn(5, 7);
  curve.learn(6, 12);
  EXPECT_EQ(curve.at(5), 10);
  double last = 0;
  for (int64_t size = 1; size <= 100; ++size) {
    EXPECT_GE(curve.at(size), last) << size;
    last = curve.at(size);
  }
}

TEST(Curve, KnowsSmallSizesApartAndLargeOnesTogether) {
  Curve curve(1024);
  for (int64_t size = 1; size <= 8; ++size) curve.learn(size, static_cast<double>(size * size));
  for (int64_t size = 1; size <= 8; ++size)
    EXPECT_EQ(curve.at(size), static_cast<double>(size * size));
  curve.learn(1000, 400);
  curve.learn(1001, 900);
  EXPECT_GT(curve.at(1024), 400) << "one place for both";
  EXPECT_LT(curve.at(1024), 900);
}

// Noisy steps of a machine whose speed changes: ratios stay right, which is what counts.
TEST(CostModel, KeepsRatiosWhenEverythingSlowsDown) {
  CostModel costs(256, 16);
  const auto step = [](int64_t rows) { return 1.0 + 0.1 * static_cast<double>(rows); };
  std::mt19937 random(3);
  std::lognormal_distribution<double> noise(0, 0.1);
  for (int i = 0; i < 50; ++i) {
    for (int64_t rows = 1; rows <= 64; rows *= 2) costs.observe_step(rows, step(rows));
    costs.observe_round(1, 0.5);
  }
  EXPECT_TRUE(costs.is_known());
  for (int i = 0; i < 400; ++i) {  // three times as slow, and only one row is seen
    costs.observe_step(1, 3 * step(1) * noise(random));
  }
  EXPECT_NEAR(costs.step_seconds(1), 3.3, 0.5);
  EXPECT_NEAR(costs.step_seconds(64) / costs.step_seconds(1), step(64) / step(1), 1.4);
  EXPECT_NEAR(costs.round_seconds(1) / costs.step_seconds(1), 0.5 / step(1), 0.09);
}

TEST(CostModel, LearnsWhatWasMeasuredWrong) {
  CostModel costs(64, 16);
  costs.observe_step(1, 1);
  costs.observe_step(6, 1.1);  // it is 3
  costs.observe_round(1, 0.2);
  for (int i = 0; i < 200; ++i) {
    costs.observe_step(1, 1);
    costs.observe_step(6, 3);
    costs.observe_round(1, 0.2);
  }
  EXPECT_NEAR(costs.step_seconds(6) / costs.step_seconds(1), 3, 0.1);
  EXPECT_NEAR(costs.round_seconds(1) / costs.step_seconds(1), 0.2, 0.02);
}

TEST(CostModel, OneStrayStepMovesLittle) {
  CostModel costs(64, 16);
  for (int i = 0; i < 50; ++i) costs.observe_step(1, 1);
  costs.observe_step(1, 1000);
  EXPECT_LT(costs.step_seconds(1), 1.5);
}

}  // namespace
}  // namespace stoker::speculative
