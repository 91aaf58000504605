// Index scores: 64 keys at a time become a panel of FP4 weights, which the queries of all heads are
// multiplied with as activations are.
#pragma once

#include <cstdint>

#include "kernels/cpu/key_scale.h"
#include "kernels/cpu/levels.h"
#include "kernels/cpu/panel_product.h"
#include "tensor/panels.h"

namespace stoker::kernels {

inline constexpr int64_t kPartDims = 128;  // 64 bytes of codes: what one transposition takes

// Panels take -0 for +0. The sign of a sum that is zero could tell them apart, and only a sum that
// is too small for a normal number leaves -0: from these sizes on there is none.
inline constexpr uint8_t kLeastKeyScale = 67;         // 2^-60
inline constexpr uint8_t kMostKeyScale = 191;         // of a panel
inline constexpr uint32_t kLeastQueryHalf = 87 << 7;  // 2^-40, a bf16

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

/// Panel of up to 64 keys; false where it cannot hold a scale. What is behind the last key counts
/// as zeros.
template <class L>
inline bool panel_of_keys(const uint8_t* const* keys, int64_t count, int64_t dim, uint8_t* panel) {
  alignas(64) uint8_t words[16 * L::kLanes * 4];
  for (int64_t first = 0; first < dim; first += kPartDims) {
    const int64_t left = (dim - first) / 8;
    for (int64_t lane = 0; lane < kPanelRows; lane += L::kLanes) {
      words_of_keys<L>(keys + lane, count - lane, first, dim, words);
      for (int64_t word = 0; word < (left < 16 ? left : 16); ++word) {
        const int64_t at = first / 8 + word;
        uint8_t* block = panel + at / 4 * kFp4BlockBytes + kPanelRows;
        __builtin_memcpy(block + (at % 4 * kPanelRows + lane) * 4, words + word * L::kLanes * 4,
                         L::kLanes * 4);
      }
    }
  }
  const int64_t blocks = dim / kPanelBlock;
  uint8_t most = 0;  // of what panels store, kMostKeyScale - scale: beyond it wraps around
  for (int64_t i = 0; i < kPanelRows; ++i) {
    for (int64_t block = 0; block < blocks; ++block) {
      const uint8_t scale = i < count ? keys[i][dim / 2 + block] : kMostKeyScale;
      const auto stored = static_cast<uint8_t>(kMostKeyScale - scale);
      panel[block * kFp4BlockBytes + i] = stored;
      most = most < stored ? stored : most;
    }
  }
  return most <= kMostKeyScale - kLeastKeyScale;
}

/// The half `half` of a step of pairs, or the step of a column, as a bf16.
template <class L>
[[gnu::always_inline]] inline uint32_t query_half(const float* row, int64_t all, int64_t column) {
  const int64_t step = L::kStepsPerPair == 1 ? column / 2 : column;
  uint32_t bits;
  __builtin_memcpy(&bits, row + step / kRunSteps * all * kRunSteps + step % kRunSteps, 4);
  return L::kStepsPerPair == 1 && column % 2 == 0 ? bits & 0xFFFF : bits >> 16;
}

/// Whether every number of the queries is a zero or large enough for panels.
template <class L>
inline bool queries_fit(const IndexJob& job) {
  constexpr int64_t kHalves = L::kStepsPerPair == 1 ? 2 : 1;  // of a step, the upper one last
  const int64_t steps = job.dim / 2 * L::kStepsPerPair;
  bool fit = true;
  for (int64_t query = 0; query < job.rows * job.heads; ++query) {
    for (int64_t first = 0; first < steps; first += kRunSteps) {
      uint16_t halves[2 * kRunSteps];
      __builtin_memcpy(halves, job.q.row(query) + first / kRunSteps * job.q.all * kRunSteps,
                       sizeof halves);
      const int64_t count = 2 * (steps - first < kRunSteps ? steps - first : kRunSteps);
      uint16_t num_small = 0;
      for (int64_t i = 2 - kHalves; i < count; i += 3 - kHalves) {
        const auto before = static_cast<uint16_t>((halves[i] & 0x7FFF) - 1);  // a zero wraps around
        num_small = static_cast<uint16_t>(num_small + (before < kLeastQueryHalf - 1));
      }
      fit = fit && num_small == 0;
    }
  }
  return fit;
}

/// Dots [queries, 64] of up to 64 keys, one by one.
template <class L>
inline void plain_dots(const IndexJob& job, const uint8_t* const* keys, int64_t count,
                       float* dots) {
  static constexpr float kValues[16] = {0,    .5F,  1,  1.5F,  2,  3,  4,  6,
                                        -0.F, -.5F, -1, -1.5F, -2, -3, -4, -6};
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t query = 0; query < job.rows * job.heads; ++query) {
      const float* row = job.q.row(query);
      const auto add = [&](int64_t place, int64_t column, float sum) {
        const int nibble = keys[i][column / 2] >> (column % 2 * 4) & 15;
        const float key = kValues[nibble] * key_scale(keys[i][job.dim / 2 + column / kPanelBlock]);
        const uint32_t bits = query_half<L>(row, job.q.all, place) << 16;
        float value;
        __builtin_memcpy(&value, &bits, sizeof value);
        return __builtin_fmaf(key, value, sum);
      };
      float sum = 0;
      for (int64_t first = 0; first < job.dim; first += 8) {
        for (int64_t t = 0; t < 4; ++t) {  // columns t and t + 4 are in places 2 t and 2 t + 1
          sum = add(first + 2 * t + 1, first + t + 4, sum);
          sum = add(first + 2 * t, first + t, sum);
        }
      }
      dots[query * kPanelRows + i] = sum;
    }
  }
}

/// One token: sums over heads, ascending, of weight times what of the dot is positive.
template <class L>
inline void weigh(const float* dots, const float* weights, int32_t heads, int64_t count,
                  float* scores) {
  typename L::Float sums[kVectors<L>];
  for (int32_t head = 0; head < heads; ++head) {
    const auto weight = L::broadcast(weights + head);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors<L>; ++v) {
      const auto dot = L::load(dots + head * kPanelRows + v * L::kLanes);
      const auto positive = L::max(L::zero(), dot);
      sums[v] = head == 0 ? L::mul(weight, positive) : L::fma(weight, positive, sums[v]);
    }
  }
  alignas(64) float out[kPanelRows];
  for (int v = 0; v < kVectors<L>; ++v) L::store(out + v * L::kLanes, sums[v]);
  __builtin_memcpy(scores, out, static_cast<size_t>(count) * sizeof(float));
}

template <class L>
void score_keys(const IndexJob& job) {
  const int64_t num_queries = job.rows * job.heads;
  float* dots = job.scratch;
  auto* panel = reinterpret_cast<uint8_t*>(dots + num_queries * kPanelRows);
  PanelJob product;
  product.data = panel;
  product.cols = job.dim;
  product.x = job.q;
  product.y = dots;
  product.y_stride = kPanelRows;
  product.width = kPanelRows;
  const bool fits = queries_fit<L>(job);
  for (int64_t first = 0; first < job.n; first += kPanelRows) {
    const int64_t count = job.n - first < kPanelRows ? job.n - first : kPanelRows;
    for (int64_t i = first + kPanelRows; i < first + 2 * kPanelRows && i < job.n; ++i)
      __builtin_prefetch(job.keys[i]);
    if (fits && panel_of_keys<L>(job.keys + first, count, job.dim, panel)) {
      pair_product<L, Fp4Panel<L>>(product);
    } else {
      plain_dots<L>(job, job.keys + first, count, dots);
    }
    for (int64_t row = 0; row < job.rows; ++row) {
      weigh<L>(dots + row * job.heads * kPanelRows, job.weights + row * job.heads, job.heads, count,
               job.scores + row * job.stride + first);
    }
  }
}

}  // namespace stoker::kernels
