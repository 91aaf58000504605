// Log-probabilities of every level against the plain twin.
#include "sampling/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "sampling/plain.h"

namespace stoker::sampling {
namespace {

TEST(Logprobs, EveryLevelEqualsThePlainTwin) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal(0, 5);
  for (const size_t n : {1, 2, 15, 16, 17, 64, 65, 1000, 129280}) {
    std::vector<float> logits(n);
    for (float& x : logits) x = random() % 3 == 0 ? std::round(normal(random)) : normal(random);
    std::vector<float> all = logits;
    plain::logprobs(all);
    std::vector<int32_t> rank(n);
    std::iota(rank.begin(), rank.end(), 0);
    std::stable_sort(rank.begin(), rank.end(), [&](int32_t a, int32_t b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    for (const kernels::Isa isa : kernels::usable_levels()) {
      Scratch scratch(isa);
      for (const int64_t num_top : {0, 1, 20, 100000000}) {
        const size_t place = random() % n;
        const int32_t token = rank[place];
        const auto found = logprobs_of(logits, token, num_top, scratch);
        ASSERT_TRUE(found);
        EXPECT_EQ(found->logprob, all[static_cast<size_t>(token)]);
        EXPECT_EQ(found->rank, static_cast<int32_t>(place) + 1);
        ASSERT_EQ(found->top.size(), std::min(n, static_cast<size_t>(num_top)));
        for (size_t i = 0; i < found->top.size(); ++i) {
          EXPECT_EQ(found->top[i].id, rank[i]);
          EXPECT_EQ(found->top[i].logprob, all[static_cast<size_t>(rank[i])]);
        }
      }
    }
  }
}

TEST(Logprobs, LogitsThatAreNotFiniteAreAnError) {
  Scratch scratch(kernels::Isa::kAvx2);
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    const auto found = logprobs_of(std::vector<float>{1, bad, 3}, 0, 2, scratch);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::kInternal);
  }
}

}  // namespace
}  // namespace stoker::sampling
