// Index scores: 64 keys at a time are the lanes, the queries of all heads are the rows.
#pragma once

#include <cstdint>

#include "kernels/cpu/key_scale.h"
#include "kernels/cpu/levels.h"
#include "kernels/cpu/tile.h"

namespace stoker::kernels {

inline constexpr int64_t kLaneKeys = 64;
inline constexpr int64_t kPartDims = 128;  // 64 bytes of codes: what one transposition takes
inline constexpr int64_t kScaleDims = 32;  // that share a scale

/// Codes of dims [first, first + 128) of up to L::kLanes keys as words [16, L::kLanes]; zeros where
/// there is no key and behind `dim`.
template <class L>
inline void words_of_keys(const uint8_t* const* keys, int64_t count, int64_t first, int64_t dim,
                          uint8_t* words) {
  static constexpr uint8_t kNone[64] = {};
  const int64_t bytes = (dim - first < kPartDims ? dim - first : kPartDims) / 2;
  uint8_t copies[L::kLanes][64];
  const uint8_t* codes[L::kLanes];
  for (int64_t i = 0; i < L::kLanes; ++i) {
    codes[i] = i < count ? keys[i] + first / 2 : kNone;
    if (i < count && bytes < 64) {  // reading on would leave the record
      __builtin_memset(copies[i], 0, 64);
      __builtin_memcpy(copies[i], codes[i], static_cast<size_t>(bytes));
      codes[i] = copies[i];
    }
  }
  L::transpose(codes, words, L::kLanes * 4);
}

/// Words [16, 64] of 128 dims from `first` on of up to 64 keys.
template <class L>
inline void words_of_panel(const uint8_t* const* keys, int64_t count, int64_t first, int64_t dim,
                           uint8_t* words) {
  uint8_t some[16 * L::kLanes * 4];
  for (int64_t lane = 0; lane < kLaneKeys; lane += L::kLanes) {
    words_of_keys<L>(keys + lane, count - lane, first, dim, some);
    for (int64_t word = 0; word < 16; ++word) {
      __builtin_memcpy(words + (word * kLaneKeys + lane) * 4, some + word * L::kLanes * 4,
                       L::kLanes * 4);
    }
  }
}

/// Scales [64] of the block of 32 dims from `first` on of up to 64 keys; 1 where there is no key.
inline void scales_of_panel(const uint8_t* const* keys, int64_t count, int64_t first, int64_t dim,
                            float* scales) {
  for (int64_t i = 0; i < kLaneKeys; ++i)
    scales[i] = i < count ? key_scale(keys[i][dim / 2 + first / kScaleDims]) : 1.0F;
}

/// 32 dims of a panel, words [4, 64] and scales [64], as steps [16 * L::kStepsPerPair, 64] of pairs
/// (t, t + 4) of every 8 dims.
template <class L>
inline void steps_of_block(const uint8_t* words, const float* scales, float* out) {
  for (int64_t lane = 0; lane < kLaneKeys; lane += L::kLanes) {
    const auto scale = L::load(scales + lane);
    for (int64_t word = 0; word < 4; ++word) {
      const auto codes = L::load_words(words + (word * kLaneKeys + lane) * 4);
      float* to = out + word * 4 * L::kStepsPerPair * kLaneKeys + lane;
      const auto store = [&](int64_t pair, auto low, auto high) __attribute__((always_inline)) {
        L::store_pair(to + pair * L::kStepsPerPair * kLaneKeys, kLaneKeys,
                      L::of_floats(L::mul(low, scale), L::mul(high, scale)));
      };
      store(0, L::template e2m1_at<0>(codes), L::template e2m1_at<4>(codes));
      store(1, L::template e2m1_at<1>(codes), L::template e2m1_at<5>(codes));
      store(2, L::template e2m1_at<2>(codes), L::template e2m1_at<6>(codes));
      store(3, L::template e2m1_at<3>(codes), L::template e2m1_at<7>(codes));
    }
  }
}

/// Adds what dims [first, first + 128) of 64 keys give to the dots [queries, 64] of all queries, a
/// run of steps at a time.
template <class L>
inline void add_dims(const IndexJob& job, const uint8_t* const* keys, int64_t count, int64_t first,
                     float* dots) {
  constexpr int64_t kBlockSteps = kScaleDims / 2 * L::kStepsPerPair;
  constexpr int64_t kBlocksPerRun = kRunSteps / kBlockSteps;
  const int64_t num_queries = job.rows * job.heads;
  const int64_t blocks = (job.dim - first < kPartDims ? job.dim - first : kPartDims) / kScaleDims;
  alignas(64) uint8_t words[16 * kLaneKeys * 4];
  alignas(64) float piece[kRunSteps * kLaneKeys];
  words_of_panel<L>(keys, count, first, job.dim, words);
  for (int64_t block = 0; block < blocks; block += kBlocksPerRun) {
    const int64_t together = blocks - block < kBlocksPerRun ? blocks - block : kBlocksPerRun;
    for (int64_t i = 0; i < together; ++i) {
      float scales[kLaneKeys];
      scales_of_panel(keys, count, first + (block + i) * kScaleDims, job.dim, scales);
      steps_of_block<L>(words + (block + i) * 4 * kLaneKeys * 4, scales,
                        piece + i * kBlockSteps * kLaneKeys);
    }
    TileArgs args;
    args.w = piece;
    args.w_stride = kLaneKeys;
    args.x = job.q.data + (first / kScaleDims + block) * kBlockSteps * job.q.all;
    args.x_row = kRunSteps;
    args.x_step = 1;
    args.steps = together * kBlockSteps;
    args.acc = dots;
    args.acc_row = kLaneKeys;
    tiles<L, Order::kPairs>(num_queries, (count + 15) / 16 * 16, args);
  }
}

/// One token: sums over heads, ascending, of weight times what of the dot is positive.
template <class L>
inline void weigh(const float* dots, const float* weights, int32_t heads, int64_t count,
                  float* scores) {
  alignas(64) float out[kLaneKeys];
  for (int64_t lane = 0; lane < count; lane += L::kLanes) {
    auto sum = L::mul(L::broadcast(weights), L::max(L::zero(), L::load(dots + lane)));
    for (int32_t head = 1; head < heads; ++head) {
      const auto positive = L::max(L::zero(), L::load(dots + head * kLaneKeys + lane));
      sum = L::fma(L::broadcast(weights + head), positive, sum);
    }
    L::store(out + lane, sum);
  }
  __builtin_memcpy(scores, out, static_cast<size_t>(count) * sizeof(float));
}

template <class L>
void score_keys(const IndexJob& job) {
  const int64_t num_queries = job.rows * job.heads;
  float* dots = job.scratch;
  for (int64_t first = 0; first < job.n; first += kLaneKeys) {
    const int64_t count = job.n - first < kLaneKeys ? job.n - first : kLaneKeys;
    __builtin_memset(dots, 0, static_cast<size_t>(num_queries * kLaneKeys) * sizeof(float));
    for (int64_t dim = 0; dim < job.dim; dim += kPartDims)
      add_dims<L>(job, job.keys + first, count, dim, dots);
    for (int64_t row = 0; row < job.rows; ++row) {
      weigh<L>(dots + row * job.heads * kLaneKeys, job.weights + row * job.heads, job.heads, count,
               job.scores + row * job.stride + first);
    }
  }
}

}  // namespace stoker::kernels
