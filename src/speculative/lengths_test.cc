#include "speculative/lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

namespace stoker::speculative {
namespace {

// A step of n rows takes seconds[n - 1].
CostModel costs_of(const std::vector<double>& seconds) {
  CostModel costs(static_cast<int64_t>(seconds.size()), 8);
  for (size_t i = 0; i < seconds.size(); ++i)
    costs.observe_step(static_cast<int64_t>(i) + 1, seconds[i]);
  return costs;
}

// The example of the DSpark paper: steps a second 1, 0.5, 0.45. Drafts are compared with the
// target's own choice, so looking past the first drop biases nothing.
TEST(Lengths, TheExampleOfThePaper) {
  // Curves of rows 1 .. 3 that are exact: the factor that all have in common is 1.
  Curve exact(3);
  CostModel costs(3, 1);
  costs.observe_step(1, 1);
  costs.observe_step(2, 1 / 0.5);
  costs.observe_step(3, 1 / 0.45);
  const double unit = costs.step_seconds(1);
  LengthChooser chooser;
  const auto rate = [&](float second, int32_t& length) {
    const std::array<float, 2> survival = {0.8F, second};
    Verifiable one{survival};
    const Expected best = chooser.choose({&one, 1}, {1, 1, 0}, costs, 3);
    length = one.length;
    return best.rate() * unit;
  };
  int32_t length = -1;
  const double two = 1.0 / costs.step_seconds(3) * unit;
  EXPECT_NEAR(rate(0.72F, length), (1 + 0.8 + 0.72) * two, 1e-6);
  EXPECT_EQ(length, 2);
  EXPECT_NEAR(rate(0, length), 1, 1e-6);
  EXPECT_EQ(length, 0);
}

// All ways to choose lengths.
double best_rate(const std::vector<std::vector<float>>& survivals, const PlainStep& step,
                 const CostModel& costs, int64_t max_rows) {
  std::vector<size_t> lengths(survivals.size(), 0);
  double best = 0;
  while (true) {
    double tokens = static_cast<double>(step.tokens);
    int64_t rows = step.rows;
    for (size_t i = 0; i < lengths.size(); ++i) {
      rows += static_cast<int64_t>(lengths[i]);
      for (size_t k = 0; k < lengths[i]; ++k) tokens += static_cast<double>(survivals[i][k]);
    }
    if (rows <= max_rows || rows == step.rows)
      best = std::max(best, tokens / (step.other_seconds + costs.step_seconds(rows)));
    size_t at = 0;
    while (at < lengths.size() && lengths[at] == survivals[at].size()) lengths[at++] = 0;
    if (at == lengths.size()) return best;
    ++lengths[at];
  }
}

TEST(Lengths, AreTheBestOfAll) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(0, 1);
    std::vector<double> seconds = {1};
    // A staircase in part, so that the rate falls before it rises.
    while (seconds.size() < 24)
      seconds.push_back(seconds.back() + (random() % 3 == 0 ? 0.9 : 0.05) * uniform(random));
    const CostModel costs = costs_of(seconds);
    std::vector<std::vector<float>> survivals(1 + random() % 4);
    for (auto& one : survivals) {
      float survival = 1;
      one.resize(random() % 6);
      for (float& s : one) s = survival *= random() % 4 == 0 ? 1 : uniform(random);
    }
    std::vector<Verifiable> sequences;
    for (const auto& one : survivals) sequences.push_back({one});
    const auto count = static_cast<int64_t>(survivals.size());
    const PlainStep step{count + static_cast<int64_t>(random() % 3), count,
                         random() % 2 == 0 ? 0.0 : 0.5};
    const int64_t max_rows = 4 + static_cast<int64_t>(random() % 24);
    LengthChooser chooser;
    const Expected found = chooser.choose(sequences, step, costs, max_rows);
    EXPECT_NEAR(found.rate(), best_rate(survivals, step, costs, max_rows), 1e-6);
    double tokens = static_cast<double>(step.tokens);
    int64_t rows = step.rows;
    for (size_t i = 0; i < sequences.size(); ++i) {
      rows += sequences[i].length;
      for (int32_t k = 0; k < sequences[i].length; ++k)
        tokens += static_cast<double>(survivals[i][static_cast<size_t>(k)]);
    }
    EXPECT_NEAR(tokens, found.tokens, 1e-5);
    EXPECT_LE(rows, std::max(max_rows, step.rows));
  }
}

TEST(Lengths, TheEarlierOfEqualOnesGoesFirst) {
  const CostModel costs = costs_of({1, 1, 1, 10, 10, 10});
  const std::array<float, 2> survival = {0.5F, 0.25F};
  std::vector<Verifiable> sequences = {{survival}, {survival}};
  LengthChooser chooser;
  chooser.choose(sequences, {2, 2, 0}, costs, 6);
  EXPECT_EQ(sequences[0].length, 1);
  EXPECT_EQ(sequences[1].length, 0);
}

// Between sizes that were seen there may be a step that costs less than the line says.
TEST(Lengths, TriesWhatIsOnlyGuessed) {
  CostModel costs(16, 8);
  costs.observe_step(1, 1);
  costs.observe_step(2, 1);
  costs.observe_step(5, 4);
  const std::array<float, 4> survival = {0.9F, 0.8F, 0.7F, 0.6F};
  Verifiable one{survival};
  LengthChooser chooser;
  chooser.choose({&one, 1}, {1, 1, 0}, costs, 16);
  EXPECT_EQ(one.length, 2) << "one is best, two are tried";
  costs.observe_step(3, 2);
  chooser.choose({&one, 1}, {1, 1, 0}, costs, 16);
  EXPECT_EQ(one.length, 1);
}

TEST(Lengths, RowsOfPromptsMakeMoreDraftsWorthIt) {
  const CostModel costs = costs_of({1, 1.8, 2.6});
  const std::array<float, 2> survival = {0.7F, 0.4F};
  Verifiable one{survival};
  LengthChooser chooser;
  chooser.choose({&one, 1}, {1, 1, 0}, costs, 3);
  EXPECT_EQ(one.length, 0);
  chooser.choose({&one, 1}, {1, 1, 20}, costs, 3);
  EXPECT_EQ(one.length, 2);
}

}  // namespace
}  // namespace stoker::speculative
