#include "speculative/calibration.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

namespace stoker::speculative {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

TEST(Calibration, BelievesTheHeadAtFirst) {
  const Calibration calibration(5);
  EXPECT_NEAR(calibration.probability(0, 0), 0.5, 1e-9);
  EXPECT_NEAR(calibration.probability(4, 2), sigmoid(2), 1e-9);
  EXPECT_EQ(calibration.probability(1, std::nanf("")), 0);
  EXPECT_GT(calibration.probability(1, 1e30F), 0.99);
  const std::array<float, 3> z = {2, 0, 1};
  std::array<float, 3> survival{};
  calibration.survivals(z, survival);
  EXPECT_NEAR(survival[0], sigmoid(2), 1e-6);
  EXPECT_NEAR(survival[2], sigmoid(2) * 0.5 * sigmoid(1), 1e-6);
}

// A head that is too sure of itself, by a temperature of 2.5 in the first place, 1.5 in the others.
TEST(Calibration, FindsTheProbabilityBehindATemperature) {
  Calibration calibration(3);
  std::mt19937 random(1);
  std::normal_distribution<float> confidence(2, 3);
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto truth = [](int32_t place, float z) { return sigmoid(z / (place == 0 ? 2.5 : 1.5)); };
  for (int i = 0; i < 6000; ++i) {
    const int32_t place = i % 3;
    const float z = confidence(random);
    calibration.observe(place, z, uniform(random) < truth(place, z));
  }
  for (const float z : {-3.0F, -1.0F, 0.5F, 2.0F, 4.0F}) {
    for (int32_t place = 0; place < 3; ++place)
      EXPECT_NEAR(calibration.probability(place, z), truth(place, z), 0.1) << place << " " << z;
  }
}

// The expected calibration error of the cumulative product, before and after: a head trained for
// greedy tokens whose drafts meet sampled ones.
TEST(Calibration, MakesSurvivalsHonest) {
  std::mt19937 random(7);
  std::normal_distribution<float> confidence(2, 2);
  std::uniform_real_distribution<double> uniform(0, 1);
  Calibration calibration(5);
  const Calibration untouched(5);
  double before = 0;
  double after = 0;
  double accepted_in_all = 0;
  constexpr int kRounds = 8000;
  for (int i = 0; i < kRounds; ++i) {
    std::array<float, 5> z{};
    for (float& one : z) one = confidence(random);
    std::array<float, 5> survival{};
    untouched.survivals(z, survival);
    const bool is_late = i >= kRounds / 2;
    for (const float s : survival) before += is_late ? s : 0;
    calibration.survivals(z, survival);
    for (const float s : survival) after += is_late ? s : 0;
    for (int32_t k = 0; k < 5; ++k) {
      const bool accepted = uniform(random) < sigmoid(0.7 * z[static_cast<size_t>(k)] - 1.2);
      calibration.observe(k, z[static_cast<size_t>(k)], accepted);
      if (!accepted) break;
      accepted_in_all += is_late ? 1 : 0;
    }
  }
  EXPECT_GT(before, 1.5 * accepted_in_all);
  EXPECT_NEAR(after / accepted_in_all, 1, 0.05);
}

// A few trials are enough to see it.
TEST(Calibration, LearnsThatDraftsAreHopeless) {
  Calibration calibration(1);
  for (int i = 0; i < 32; ++i) calibration.observe(0, static_cast<float>(i % 6), false);
  for (const float z : {0.0F, 3.0F, 5.0F}) EXPECT_LT(calibration.probability(0, z), 0.2) << z;
}

TEST(Calibration, Forgets) {
  Calibration calibration(1);
  for (int i = 0; i < 3000; ++i) calibration.observe(0, 1, false);
  for (int i = 0; i < 1000; ++i) calibration.observe(0, 1, true);
  EXPECT_GT(calibration.probability(0, 1), 0.9);
}

}  // namespace
}  // namespace stoker::speculative
