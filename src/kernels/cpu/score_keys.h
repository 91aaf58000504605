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

/// keys [count <= 64] -> steps [dim / 2 * L::kStepsPerPair, 64] of pairs (t, t + 4) of every 8
/// dims.
template <class L>
inline void steps_of_keys(const uint8_t* const* keys, int64_t count, int64_t dim, float* out) {
  for (int64_t lane = 0; lane < kLaneKeys; lane += L::kLanes) {
    const int64_t live = count - lane < L::kLanes ? count - lane : L::kLanes;
    for (int64_t first = 0; first < dim; first += kPartDims) {
      uint8_t words[16 * L::kLanes * 4];
      words_of_keys<L>(keys + lane, live, first, dim, words);
      const int64_t end = dim - first < kPartDims ? dim - first : kPartDims;
      for (int64_t at = 0; at < end; at += kScaleDims) {
        float scales[L::kLanes];
        for (int64_t i = 0; i < L::kLanes; ++i)
          scales[i] =
              i < live ? key_scale(keys[lane + i][dim / 2 + (first + at) / kScaleDims]) : 1.0F;
        const auto scale = L::load(scales);
        for (int64_t word = at / 8; word < (at + kScaleDims) / 8; ++word) {
          const auto codes = L::load_words(words + word * L::kLanes * 4);
          float* to = out + (first / 2 + word * 4) * L::kStepsPerPair * kLaneKeys + lane;
          const auto store = [&](int64_t pair, auto low, auto high) {
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
  const int64_t steps = job.dim / 2 * L::kStepsPerPair;
  const int64_t num_queries = job.rows * job.heads;
  float* piece = job.scratch;
  float* dots = piece + job.dim * kLaneKeys;
  for (int64_t first = 0; first < job.n; first += kLaneKeys) {
    const int64_t count = job.n - first < kLaneKeys ? job.n - first : kLaneKeys;
    steps_of_keys<L>(job.keys + first, count, job.dim, piece);
    __builtin_memset(dots, 0, static_cast<size_t>(num_queries * kLaneKeys) * sizeof(float));
    for (int64_t step = 0; step < steps; step += kRunSteps) {
      TileArgs args;
      args.w = piece + step * kLaneKeys;
      args.w_stride = kLaneKeys;
      args.x = job.q.data + step * job.q.all;
      args.x_row = kRunSteps;
      args.x_step = 1;
      args.steps = steps - step < kRunSteps ? steps - step : kRunSteps;
      args.acc = dots;
      args.acc_row = kLaneKeys;
      tiles<L, Order::kPairs>(num_queries, (count + 15) / 16 * 16, args);
    }
    for (int64_t row = 0; row < job.rows; ++row) {
      weigh<L>(dots + row * job.heads * kLaneKeys, job.weights + row * job.heads, job.heads, count,
               job.scores + row * job.stride + first);
    }
  }
}

}  // namespace stoker::kernels
