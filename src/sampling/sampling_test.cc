// Sampling against tests/data/arith (made by tools/reference/make_arith_golden.py), bit for bit,
// and its edges.
#include "sampling/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/golden.h"

namespace stoker::sampling {
namespace {

using testing::GoldenFile;
using testing::same_bits;

constexpr float kInf = std::numeric_limits<float>::infinity();

class Sampling : public ::testing::Test {
 protected:
  GoldenFile golden_{"tests/data/arith/arith.safetensors"};
};

TEST_F(Sampling, PhiloxKnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST_F(Sampling, GumbelNoise) {
  const std::pair<uint64_t, uint64_t> cases[] = {
      {0, 0}, {1, 7}, {~uint64_t{0}, (uint64_t{1} << 33) + 5}, {choice_seed(1, 3), 1048575}};
  for (const auto& [seed, position] : cases) {
    std::vector<float> noise(707);
    gumbel(seed, position, 0, noise);
    const std::string name =
        "gumbel." + std::to_string(seed) + "." + std::to_string(position) + ".out";
    EXPECT_TRUE(same_bits(noise, golden_.f32(name))) << name;
  }
  EXPECT_EQ(choice_seed(5, 0), 5U);
}

TEST_F(Sampling, Penalties) {
  auto logits = golden_.f32("penalise.x");
  std::vector<int32_t> counts;
  std::vector<uint8_t> seen;
  for (const float count : golden_.f32("penalise.counts"))
    counts.push_back(static_cast<int32_t>(count));
  for (const float flag : golden_.f32("penalise.in_prompt")) seen.push_back(flag != 0 ? 1 : 0);
  for (size_t row = 0; row < logits.size(); row += 64) {
    penalise({logits.data() + row, 64}, counts, seen, {1.3F, 0.4F, 0.2F});
  }
  EXPECT_TRUE(same_bits(logits, golden_.f32("penalise.out")));
}

TEST_F(Sampling, Logprobs) {
  auto x = golden_.f32("logprobs.x");
  for (size_t row = 0; row < x.size(); row += 64) logprobs({x.data() + row, 64});
  EXPECT_TRUE(same_bits(x, golden_.f32("logprobs.out")));
}

// The golden file keeps parameters as float32; these are the numbers that they were.
double as_written(float value) {
  return std::round(static_cast<double>(value) * 1000) / 1000;
}

TEST_F(Sampling, EveryCombinationOfFilters) {
  const auto logits = golden_.f32("penalise.x");
  const auto rows = golden_.f32("sample.parameters.out");
  const auto expected = golden_.f32("sample.out");
  Scratch scratch;
  for (size_t row = 0; row < rows.size() / 4; ++row) {
    const Params params{as_written(rows[4 * row]), static_cast<int32_t>(rows[4 * row + 1]),
                        as_written(rows[4 * row + 2]), as_written(rows[4 * row + 3])};
    for (size_t position = 0; position < 40; ++position) {
      const auto token = sample({logits.data() + position * 64, 64}, 42, position, params, scratch);
      ASSERT_TRUE(token);
      EXPECT_EQ(*token, static_cast<int32_t>(expected[row * 40 + position]))
          << row << " " << position;
    }
  }
}

int32_t sample_or_minus(std::vector<float> logits, const Params& params) {
  Scratch scratch;
  const auto token = sample(logits, 1, 0, params, scratch);
  return token ? *token : -1;
}

TEST_F(Sampling, LogitsThatAreNotFiniteAreAnErrorAndNothingAborts) {
  const float nan = std::nanf("");
  const Params hostile[] = {{0, 0, 1, 0}, {1, 0, 1, 0}, {1e-9, 0, 1, 0},      {1, 1, 1, 0},
                            {1, 0, 0, 0}, {1, 0, 1, 1}, {1e-300, 3, 0.5, 0.5}};
  for (const Params& params : hostile) {
    EXPECT_EQ(sample_or_minus({nan, nan}, params), -1);
    EXPECT_EQ(sample_or_minus({0, nan}, params), -1);
    EXPECT_EQ(sample_or_minus({-kInf, -kInf}, params), -1);
    EXPECT_EQ(sample_or_minus({0, kInf}, params), -1);
    EXPECT_EQ(sample_or_minus({-kInf, 3}, params), 1);
  }
  EXPECT_EQ(sample_or_minus({1, 3e38F, 2}, {1e-9, 0, 0.9, 0}), 1) << "overflow takes the largest";
}

TEST_F(Sampling, TiesGoToTheLowerId) {
  EXPECT_EQ(sample_or_minus({1, 5, 5, 5}, {0, 0, 1, 0}), 1);
  EXPECT_EQ(sample_or_minus({1, 5, 5, 5}, {1, 1, 1, 0}), 1);
  EXPECT_EQ(sample_or_minus({1, 5, 5, 5}, {1, 0, 0, 0}), 1);
}

}  // namespace
}  // namespace stoker::sampling
