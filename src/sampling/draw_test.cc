// Choices of every level against the plain twin on many random rows, and their distribution.
#include "sampling/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/worker_pool.h"
#include "sampling/plain.h"
#include "tensor/arith.h"

namespace stoker::sampling {
namespace {

int32_t drawn(std::span<const float> x, const NoiseSource& source, const Params& params,
              Scratch& scratch) {
  const KeepDenormals keep;
  return draw(x, *std::max_element(x.begin(), x.end()), source, params, scratch);
}

// Rows of many shapes: peaked, flat, with equal values, with bans, huge and tiny.
std::vector<float> random_row(std::mt19937_64& random, size_t n) {
  constexpr float kScales[] = {0, 0.01F, 1, 4, 30, 1e9F, 1e-40F, 1e37F};
  std::normal_distribution<float> normal;
  const float scale = kScales[random() % std::size(kScales)];
  const float offset = random() % 4 == 0 ? 100 * scale : 0;
  const bool is_rounded = random() % 3 == 0;
  const bool has_bans = random() % 3 == 0;
  std::vector<float> x(n);
  for (float& value : x) {
    const float drawn_value = is_rounded ? std::round(normal(random) * 2) / 2 : normal(random);
    value = has_bans && random() % 2 == 0 ? arith::kNegInf : drawn_value * scale + offset;
  }
  if (random() % 3 == 0) x[random() % n] = 25 + offset;
  x[random() % n] = offset;  // one at least is not banned
  return x;
}

Params random_params(std::mt19937_64& random) {
  const auto one_of = [&random](auto... values) {
    const double all[] = {static_cast<double>(values)...};
    return all[random() % std::size(all)];
  };
  Params params;
  params.temperature = one_of(0, 1, 1, 0.5, 0.9, 2, 1e-3, 1e5);
  params.top_k = static_cast<int32_t>(one_of(0, 0, -1, 1, 2, 7, 40, 500, 1e9));
  params.top_p = one_of(1, 1, 0.9, 0.5, 0.99, 0.1, 1e-12, 0.9999999);
  params.min_p = one_of(0, 0, 0.1, 0.01, 1, 1e-9, 1e-30);
  return params;
}

TEST(Draw, EveryLevelEqualsThePlainTwin) {
  std::mt19937_64 random(20);
  std::vector<Scratch> scratches;
  for (const kernels::Isa isa : kernels::usable_levels()) scratches.emplace_back(isa);
  for (int i = 0; i < 6000; ++i) {
    constexpr size_t kSizes[] = {1, 3, 15, 16, 17, 31, 63, 64, 65, 127, 128, 300, 1000, 2049};
    const auto x = random_row(random, kSizes[random() % std::size(kSizes)]);
    const Params params = random_params(random);
    const NoiseSource source{random(), random() >> 20, static_cast<uint32_t>(random() % 3)};
    const int32_t expected = plain::sample(x, source, params);
    for (Scratch& scratch : scratches) {
      ASSERT_EQ(drawn(x, source, params, scratch), expected)
          << "case " << i << " of " << x.size() << " ids, temperature " << params.temperature
          << ", top_k " << params.top_k << ", top_p " << params.top_p << ", min_p " << params.min_p;
    }
  }
}

// Heads that end among many ids with little mass each, far below the top.
TEST(Draw, HeadsMayEndFarBelowTheTop) {
  Scratch scratch(kernels::usable_levels().back());
  std::vector<float> x(1000, -12);
  x[400] = 0;
  int num_others = 0;
  for (const auto& [top_k, top_p] :
       {std::pair{0, 0.9985}, std::pair{400, 1.0}, std::pair{700, 0.9985}}) {
    Params params;
    params.top_k = top_k;
    params.top_p = top_p;
    for (uint64_t seed = 0; seed < 4000; ++seed) {
      const int32_t expected = plain::sample(x, {seed, 1}, params);
      ASSERT_EQ(drawn(x, {seed, 1}, params, scratch), expected);
      num_others += expected == 400 ? 0 : 1;
    }
  }
  EXPECT_GT(num_others, 10);
}

// 10^6 draws with a seed each, against the probabilities in double.
TEST(Draw, TokensComeAsOftenAsTheirProbabilitiesSay) {
  constexpr size_t kIds = 40;
  constexpr int kDraws = 1000000;
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal(0, 1.5F);
  std::vector<float> x(kIds);
  for (float& value : x) value = normal(random);
  Params hot{1.3};
  Params top_k{0.8};
  top_k.top_k = 7;
  Params top_p{1};
  top_p.top_p = 0.8;
  Params min_p{1};
  min_p.min_p = 0.05;
  for (const Params& params : {hot, top_k, top_p, min_p}) {
    std::vector<size_t> rank(kIds);
    for (size_t i = 0; i < kIds; ++i) rank[i] = i;
    std::sort(rank.begin(), rank.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
    std::vector<double> p(kIds);
    for (size_t i = 0; i < kIds; ++i)
      p[i] = std::exp((static_cast<double>(x[i]) - x[rank[0]]) / params.temperature);
    if (params.top_k > 0) rank.resize(static_cast<size_t>(params.top_k));
    double total = 0;
    for (const size_t id : rank) total += p[id];
    double sum = 0;
    size_t kept = 0;
    while (kept < rank.size() && (kept == 0 || sum < params.top_p * total) &&
           p[rank[kept]] >= params.min_p)
      sum += p[rank[kept++]];
    rank.resize(kept);

    std::vector<int64_t> counts(kIds);
    Scratch scratch(kernels::usable_levels().back());
    for (int i = 0; i < kDraws; ++i)
      ++counts[static_cast<size_t>(drawn(x, {static_cast<uint64_t>(i), 17}, params, scratch))];
    double chi_square = 0;
    int64_t num_seen = 0;
    for (const size_t id : rank) {
      const double expected = p[id] / sum * kDraws;
      ASSERT_GT(expected, 5) << "too rare to be tested so";
      const double off = static_cast<double>(counts[id]) - expected;
      chi_square += off * off / expected;
      num_seen += counts[id];
    }
    EXPECT_EQ(num_seen, kDraws) << "a token that the filters remove was drawn";
    // Mean and deviation of the distribution of chi-square; beyond 5 deviations by chance once in
    // millions of runs. The seeds are fixed.
    const auto freedom = static_cast<double>(rank.size() - 1);
    EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom)) << rank.size() << " ids";
    EXPECT_GT(chi_square, freedom - 5 * std::sqrt(2 * freedom)) << rank.size() << " ids";
  }
}

TEST(Draw, NoiseStaysWithinWhatIsPrunedBy) {
  float least = 0;
  float most = 0;
  for (const uint64_t seed : {1, 2, 3}) {
    std::vector<float> noise(1 << 20);
    gumbel({seed, 0}, noise);
    least = std::min(least, *std::min_element(noise.begin(), noise.end()));
    most = std::max(most, *std::max_element(noise.begin(), noise.end()));
  }
  EXPECT_GE(least, -2.86F);
  EXPECT_LE(most, 22.9F);
  EXPECT_GT(most, 10);
}

TEST(Draw, TiesGoToTheLowerId) {
  Scratch scratch(kernels::Isa::kAvx2);
  const std::vector<float> x = {1, 5, 5, 5};
  EXPECT_EQ(drawn(x, {}, {0, 0, 1, 0}, scratch), 1);
  EXPECT_EQ(drawn(x, {}, {1, 1, 1, 0}, scratch), 1);
  EXPECT_EQ(drawn(x, {}, {1, 0, 0, 0}, scratch), 1);
}

TEST(Draw, WhereDividingOverflowsTheLargestIsTaken) {
  Scratch scratch(kernels::Isa::kAvx2);
  const std::vector<float> x = {1, 3e38F, 2};
  EXPECT_EQ(drawn(x, {}, {1e-9, 0, 0.9, 0}, scratch), 1);
  EXPECT_EQ(drawn(x, {}, {1e-300, 0, 0.9, 0}, scratch), 1);
}

}  // namespace
}  // namespace stoker::sampling
