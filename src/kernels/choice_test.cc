// What chooses rows and experts: order, ties, and inputs that are not numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/chain.h"
#include "kernels/index.h"
#include "kernels/moe.h"
#include "tensor/formats.h"

namespace stoker::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

std::vector<int32_t> top(const std::vector<float>& scores, int64_t k) {
  const auto n = static_cast<int64_t>(scores.size());
  std::vector<int32_t> list(static_cast<size_t>(top_list_size(n, k)), 99);
  list.resize(static_cast<size_t>(top_indices(scores.data(), n, k, list.data())));
  return list;
}

TEST(TopIndices, LargestAscendingLowerIndexOnTies) {
  EXPECT_EQ(top({1, 3, 2, 3, 3}, 2), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(top({1, 3, 2, 3, 3}, 4), (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(top({-kInf, 0, -kInf}, 2), (std::vector<int32_t>{1}));
  EXPECT_EQ(top({}, 2), (std::vector<int32_t>{}));
  EXPECT_EQ(top({kNan, 1, kNan, 2}, 3), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(top({5, 4, 3}, 9), (std::vector<int32_t>{0, 1, 2}));
}

// Long lists with many equal scores, in rising, falling and random order, against a full sort.
TEST(TopIndices, OfLongListsAreThoseOfASort) {
  uint32_t x = 1;
  for (const int64_t k : {1, 7, 64}) {
    for (int order = 0; order < 3; ++order) {
      std::vector<float> scores;
      for (int i = 0; i < 3000; ++i) {
        x = x * 1664525 + 1013904223;
        const float drawn = static_cast<float>(x >> 8 & 63);
        scores.push_back(order == 0 ? drawn : static_cast<float>(order == 1 ? i / 3 : -i / 3));
        if (x % 50 == 0) scores.back() = x % 100 == 0 ? kNan : -kInf;
      }
      std::vector<int32_t> all;
      for (size_t i = 0; i < scores.size(); ++i) {
        if (scores[i] > -kInf) all.push_back(static_cast<int32_t>(i));
      }
      std::stable_sort(all.begin(), all.end(), [&](int32_t a, int32_t b) {
        return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
      });
      all.resize(static_cast<size_t>(k));
      std::sort(all.begin(), all.end());
      EXPECT_EQ(top(scores, k), all) << "k " << k << ", order " << order;
    }
  }
}

std::vector<int32_t> candidates(const std::vector<float>& scores, int64_t blocks, int64_t size) {
  const auto n = static_cast<int64_t>(scores.size());
  const auto num_blocks = static_cast<size_t>((n + size - 1) / size);
  std::vector<float> best(num_blocks);
  std::vector<int32_t> list(num_blocks);
  list.resize(static_cast<size_t>(
      candidate_blocks(scores.data(), n, blocks, size, best.data(), list.data())));
  return list;
}

TEST(CandidateBlocks, NewestIsAlwaysKept) {
  EXPECT_EQ(candidates({9, 0, 8, 0, 7, 0, -5}, 2, 2), (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(candidates({9, 0, 8, 0, 7, 0, -5}, 1, 2), (std::vector<int32_t>{3}));
  EXPECT_EQ(candidates({1, 1, 1, 1, 1, 1}, 2, 2), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(candidates({}, 2, 2), (std::vector<int32_t>{}));
}

// Field fault: a head whose dot product is negative must not count, and keys have one layout for
// writer and reader.
TEST(IndexScores, EachHeadIsRectifiedBeforeTheSum) {
  float key[3][32] = {};
  key[0][0] = 1;
  key[1][0] = -2;
  key[2][1] = 4;
  std::vector<uint8_t> records(3 * static_cast<size_t>(index_record_bytes(32)));
  for (int j = 0; j < 3; ++j) encode_index(key[j], 32, records.data() + j * index_record_bytes(32));
  float q[2][32] = {};
  q[0][0] = 1;   // head 0: 1, -2, 0
  q[1][0] = -1;  // head 1: -1, 2, 2
  q[1][1] = 0.5F;
  const float weights[2] = {10, 1};
  float scores[3];
  index_scores({q[0], weights, 1, 2, 32}, records.data(), 3, scores, 3);
  EXPECT_EQ(scores[0], 10.0F);
  EXPECT_EQ(scores[1], 2.0F);
  EXPECT_EQ(scores[2], 2.0F);
}

// However many tokens and keys are scored together, each score is that of one token and one key.
TEST(IndexScores, AreThoseOfOneTokenAndOneKey) {
  constexpr int64_t kDim = 64;
  constexpr int32_t kHeads = 3;
  constexpr int64_t kMaxRows = 9;
  constexpr int64_t kMaxKeys = 37;
  uint32_t x = 1;
  const auto next = [&x] {
    x = x * 1664525 + 1013904223;
    return (static_cast<float>(x >> 8) / 16777216.0F - 0.5F) * 8;
  };
  std::vector<float> q(kMaxRows * kHeads * kDim);
  std::vector<float> weights(kMaxRows * kHeads);
  for (float& value : q) value = bf16_round(next());
  for (float& value : weights) value = next();
  const int64_t record = index_record_bytes(kDim);
  std::vector<uint8_t> keys(static_cast<size_t>(kMaxKeys * record));
  std::vector<std::vector<float>> decoded;
  for (int64_t j = 0; j < kMaxKeys; ++j) {
    std::vector<float> key(kDim);
    for (float& value : key) value = next();
    encode_index(key.data(), kDim, keys.data() + j * record);
    decode_index(keys.data() + j * record, kDim, key.data());
    decoded.push_back(key);
  }
  for (const int64_t rows : {1, 2, 5, 9}) {
    for (const int64_t n : {1, 15, 16, 17, 37}) {
      std::vector<float> scores(static_cast<size_t>(rows * (n + 3)), 99);
      index_scores({q.data(), weights.data(), rows, kHeads, kDim}, keys.data(), n, scores.data(),
                   n + 3);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t j = 0; j < n; ++j) {
          float expected = 0;
          for (int32_t head = 0; head < kHeads; ++head) {
            const float dot = chain_dot(q.data() + (row * kHeads + head) * kDim,
                                        decoded[static_cast<size_t>(j)].data(), kDim, kFp4Block);
            const float weight = weights[static_cast<size_t>(row * kHeads + head)];
            const float positive = std::max(dot, 0.0F);
            expected = head == 0 ? weight * positive : arith::fma(weight, positive, expected);
          }
          ASSERT_EQ(scores[static_cast<size_t>(row * (n + 3) + j)], expected)
              << row << " of " << rows << ", key " << j << " of " << n;
        }
        EXPECT_EQ(scores[static_cast<size_t>(row * (n + 3) + n)], 99) << "nothing beyond";
      }
    }
  }
}

TEST(Route, BiasMovesTheChoiceNotTheWeights) {
  float logits[4] = {0, 2, 2, 1};
  const float bias[4] = {10, 0, 0, 0};
  RouteParams params{.num_experts = 4, .top_k = 2, .scoring = Scoring::kSigmoid, .bias = bias};
  params.norm_topk_prob = false;
  int32_t scratch[4];
  int32_t ids[2];
  float weights[2];
  route(logits, params, scratch, ids, weights);
  EXPECT_EQ(ids[0], 0);
  EXPECT_EQ(ids[1], 1) << "of equal scores the lower id";
  EXPECT_EQ(weights[0], 0.5F);
  EXPECT_GT(weights[1], 0.8F);
}

TEST(Route, SurvivesLogitsThatAreNotNumbers) {
  float logits[3] = {kNan, kNan, 1};
  const float bias[3] = {};
  const RouteParams params{.num_experts = 3, .top_k = 2, .bias = bias};
  int32_t scratch[4];
  int32_t ids[2];
  float weights[2];
  route(logits, params, scratch, ids, weights);
  EXPECT_EQ(ids[0], 0);
  EXPECT_EQ(ids[1], 2);
}

TEST(Swiglu, ClampsBothSides) {
  const float gate[3] = {20, -20, 1};
  const float up[3] = {20, -20, 2};
  float hidden[3];
  const float scale = 0.5F;
  swiglu(gate, up, 3, 10, &scale, hidden);
  EXPECT_NEAR(hidden[0], 50.0F, 0.01F);
  EXPECT_GT(hidden[1], 0.0F);  // the gate has no lower limit, the other side has
  EXPECT_NEAR(hidden[2], 0.7310586F, 1e-6F);
  float nan_gate[1] = {kNan};
  swiglu(nan_gate, up, 1, 10, nullptr, hidden);
  EXPECT_TRUE(std::isnan(hidden[0]));
}

}  // namespace
}  // namespace stoker::kernels
