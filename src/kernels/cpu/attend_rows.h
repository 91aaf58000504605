// Attention of one token over stored records. Lanes are heads while scores are made and channels
// while values are mixed; records are decoded twice, a tile of 64 steps at a time. In blocks of
// 2 * L::kLanes dims, decoding gives the even and the odd ones; so have the sums of values them,
// until the end.
#pragma once

#include <cstdint>

#include "kernels/cpu/key_scale.h"
#include "kernels/cpu/levels.h"
#include "kernels/cpu/tile.h"

namespace stoker::kernels {

inline constexpr int64_t kTileSteps = 64;
inline constexpr int64_t kScoredKeys = 64;  // together
inline constexpr int64_t kMixedDims = 64;   // together

/// Dims of a tile of scores, and keys of a tile of values.
template <class L>
inline constexpr int64_t kTileValues = kTileSteps / L::kStepsPerPair * 2;

[[gnu::always_inline]] constexpr int64_t whole_lanes(int64_t n) {
  return (n + 15) / 16 * 16;
}
[[gnu::always_inline]] constexpr int64_t whole_tiles(int64_t dim) {
  return (dim + kMixedDims - 1) / kMixedDims * kMixedDims;
}

/// What each e4m3 code means.
struct E4m3Table {
  float values[256] = {};
};
constexpr E4m3Table e4m3_table() {
  E4m3Table table;
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code >> 3) & 15;
    float value = static_cast<float>(exponent == 0 ? code & 7 : (code & 7) + 8);
    for (int e = exponent == 0 ? 1 : exponent; e < 10; ++e) value /= 2;
    for (int e = 10; e < exponent; ++e) value *= 2;
    if ((code & 0x7F) == 0x7F) value = __builtin_nanf("");
    table.values[code] = (code & 0x80) != 0 ? -value : value;
  }
  return table;
}

/// The scratch of attend(), in this order. Shapes are those of levels that multiply float32; pairs
/// need half of the steps.
struct AttendScratch {
  float* q;        ///< [dim, lanes]; then sums of values, [ceil(dim / 64), heads, 64]
  float* scores;   ///< [keys, lanes], with an even number of keys
  float* inverse;  ///< [lanes]
};

[[gnu::always_inline]] inline AttendScratch attend_scratch(float* memory, int64_t lanes,
                                                           int64_t dim, int64_t num_keys) {
  float* scores = memory + whole_tiles(dim) * lanes;
  return {memory, scores, scores + (num_keys + num_keys % 2) * lanes};
}

/// e^x as tensor/arith.h has it.
template <class L>
[[gnu::always_inline]] inline typename L::Float exp_of(typename L::Float x) {
  using Float = typename L::Float;
  const auto constant = [](float value) { return L::broadcast(&value); };
  const Float y = L::min(constant(88.0F), x);  // x where it is NaN
  const Float n = L::round(L::mul(y, constant(1.44269504F)));
  const Float minus_n = L::sub(L::zero(), n);
  Float r = L::fma(minus_n, constant(0.693145752F), y);
  r = L::fma(minus_n, constant(1.42860677e-6F), r);
  Float p = constant(0.0013941213255748153F);
  p = L::fma(p, r, constant(0.008375209756195545F));
  p = L::fma(p, r, constant(0.04166635125875473F));
  p = L::fma(p, r, constant(0.16666413843631744F));
  p = L::fma(p, r, constant(0.5F));
  p = L::fma(p, r, constant(1.0F));
  p = L::fma(p, r, constant(1.0F));
  return L::zero_below(x, L::times_pow2(p, n), -87.0F);
}

/// The 2 * L::kLanes dims from `first` on of key number `key`.
template <class L>
[[gnu::always_inline]] inline void decode_dims(const KeyRecords& keys, int64_t key, int64_t dim,
                                               int64_t first, typename L::Float& even,
                                               typename L::Float& odd) {
  static constexpr E4m3Table kScales = e4m3_table();
  typename L::Float scale;
  if (key < keys.num_window) {
    const uint8_t* record = keys.window[key];
    const float value = key_scale(record[dim + first / 32]);
    scale = L::broadcast(&value);
    L::e4m3(record + first, even, odd);
  } else {
    const uint8_t* record = keys.latents[key - keys.num_window];
    scale = L::scales_of_16(kScales.values, record + dim / 2 + first / 16);
    L::e2m1(record + first / 2, even, odd);
  }
  even = L::mul(even, scale);
  odd = L::mul(odd, scale);
}

/// Asks for the records of `count` keys from `first` on.
inline void prefetch_keys(const KeyRecords& keys, int64_t first, int64_t count, int64_t dim) {
  const int64_t end = keys.num_window + keys.num_latents;
  for (int64_t i = first; i < first + count && i < end; ++i) {
    const bool in_window = i < keys.num_window;
    const uint8_t* record = in_window ? keys.window[i] : keys.latents[i - keys.num_window];
    const int64_t bytes = in_window ? dim + dim / 32 : dim / 2 + dim / 16;
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(record + at);
  }
}

/// q [heads, dim] -> steps [dim / 2 * L::kStepsPerPair, lanes] of pairs of dims, zeros where there
/// is no head.
template <class L>
inline void lanes_of_heads(const float* q, int32_t heads, int64_t dim, int64_t lanes, float* out) {
  constexpr int64_t kDims = 16 / L::kStepsPerPair * 2;
  static constexpr float kNone[kDims] = {};
  for (int64_t lane = 0; lane < lanes; lane += L::kLanes) {
    for (int64_t first = 0; first < dim; first += kDims) {
      alignas(64) float steps[L::kLanes][16];
      const uint8_t* rows[L::kLanes];
      for (int64_t i = 0; i < L::kLanes; ++i) {
        const float* row = lane + i < heads ? q + (lane + i) * dim + first : kNone;
        L::natural_steps(row, steps[i]);
        rows[i] = reinterpret_cast<const uint8_t*>(steps[i]);
      }
      float* to = out + first / 2 * L::kStepsPerPair * lanes + lane;
      L::transpose(rows, reinterpret_cast<uint8_t*>(to),
                   lanes * static_cast<int64_t>(sizeof(float)));
    }
  }
}

/// scores [n, lanes] -> shares rounded to bf16, in place, as steps of pairs of keys, an odd last
/// key with zeros; inverse [heads] := 1 / total.
template <class L>
inline void softmax_of_heads(float* scores, int64_t n, int64_t lanes, const float* sink,
                             int32_t heads, float scale_value, float* inverse) {
  using Float = typename L::Float;
  const Float scale = L::broadcast(&scale_value);
  const float one = 1.0F;
  for (int64_t lane = 0; lane < lanes; lane += L::kLanes) {
    float sinks[L::kLanes];
    for (int64_t i = 0; i < L::kLanes; ++i) sinks[i] = lane + i < heads ? sink[lane + i] : 0.0F;
    const Float own = L::load(sinks);
    Float top = L::load(scores + lane);
    for (int64_t row = 1; row < n; ++row) top = L::max(L::load(scores + row * lanes + lane), top);
    top = L::max(own, L::mul(top, scale));
    const Float minus_top = L::sub(L::zero(), top);
    Float total = L::zero();
    const auto share_of = [&](int64_t row) __attribute__((always_inline)) {
      const Float score = L::load(scores + row * lanes + lane);
      const Float share = exp_of<L>(L::fma(score, scale, minus_top));
      total = row == 0 ? share : L::add(total, share);
      return L::bf16_round(share);
    };
    for (int64_t row = 0; row < n; row += 2) {
      const Float first = share_of(row);
      const Float second = row + 1 < n ? share_of(row + 1) : L::zero();
      L::store_pair(scores + row / 2 * L::kStepsPerPair * lanes + lane, lanes,
                    L::of_floats(first, second));
    }
    total = L::add(total, exp_of<L>(L::sub(own, top)));
    float inverses[L::kLanes];
    L::store(inverses, L::div(L::broadcast(&one), total));
    for (int64_t i = 0; i < L::kLanes && lane + i < heads; ++i) inverse[lane + i] = inverses[i];
  }
}

/// Adds the products of dims [dim, dim + width) to the scores of keys [first, first + count).
template <class L>
inline void score_tile(const AttendJob& job, const AttendScratch& scratch, int64_t first,
                       int64_t count, int64_t dim, int64_t width, int64_t lanes) {
  constexpr int64_t kBlock = 2 * L::kLanes;
  alignas(64) float keys[kScoredKeys * kTileSteps];
  for (int64_t i = 0; i < count; ++i) {
    float* out = keys + i * kTileSteps;
    for (int64_t at = 0; at < width; at += kBlock) {
      typename L::Float even, odd;
      decode_dims<L>(job.keys, first + i, job.dim, dim + at, even, odd);
      L::store_along(out + at / 2 * L::kStepsPerPair, even, odd);
    }
  }
  TileArgs args;
  args.w = scratch.q + dim / 2 * L::kStepsPerPair * lanes;
  args.w_stride = lanes;
  args.x = keys;
  args.x_row = kTileSteps;
  args.x_step = 1;
  args.steps = width / 2 * L::kStepsPerPair;
  args.acc = scratch.scores + first * lanes;
  args.acc_row = lanes;
  tiles<L, Order::kPairs>(count, lanes, args);
}

/// Adds what keys [first, first + count) have at dims [dim, dim + width) to the sums of values.
/// first is even.
template <class L>
inline void mix_tile(const AttendJob& job, const AttendScratch& scratch, int64_t first,
                     int64_t count, int64_t dim, int64_t width, int64_t lanes) {
  constexpr int64_t kBlock = 2 * L::kLanes;
  using Float = typename L::Float;
  alignas(64) float keys[kTileSteps * kMixedDims];
  const int64_t pairs = (count + 1) / 2;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const int64_t key = first + 2 * pair;
    const bool is_whole = 2 * pair + 1 < count;
    float* out = keys + pair * L::kStepsPerPair * kMixedDims;
    for (int64_t at = 0; at < width; at += kBlock) {
      Float even[2] = {L::zero(), L::zero()};
      Float odd[2] = {L::zero(), L::zero()};
      decode_dims<L>(job.keys, key, job.dim, dim + at, even[0], odd[0]);
      if (is_whole) decode_dims<L>(job.keys, key + 1, job.dim, dim + at, even[1], odd[1]);
      L::store_pair(out + at, kMixedDims, L::of_floats(even[0], even[1]));
      L::store_pair(out + at + L::kLanes, kMixedDims, L::of_floats(odd[0], odd[1]));
    }
  }
  TileArgs args;
  args.w = keys;
  args.w_stride = kMixedDims;
  args.x = scratch.scores + first / 2 * L::kStepsPerPair * lanes;
  args.x_row = 1;
  args.x_step = lanes;
  args.steps = pairs * L::kStepsPerPair;
  args.acc = scratch.q + dim * job.heads;
  args.acc_row = kMixedDims;
  tiles<L, Order::kPairs>(job.heads, width, args);
}

/// The sums of values by their totals, dims in their order.
template <class L>
inline void write_values(const AttendJob& job, const AttendScratch& scratch) {
  constexpr int64_t kBlock = 2 * L::kLanes;
  for (int32_t head = 0; head < job.heads; ++head) {
    const auto factor = L::broadcast(scratch.inverse + head);
    for (int64_t dim = 0; dim < job.dim; dim += kBlock) {
      const int64_t tile = dim / kMixedDims * kMixedDims;
      const float* sums = scratch.q + tile * job.heads + head * kMixedDims + (dim - tile);
      typename L::Float both[2];
      L::interleave(L::mul(L::load(sums), factor), L::mul(L::load(sums + L::kLanes), factor), both);
      L::store(job.out + head * job.dim + dim, both[0]);
      L::store(job.out + head * job.dim + dim + L::kLanes, both[1]);
    }
  }
}

template <class L>
void attend_rows(const AttendJob& job) {
  const int64_t n = job.keys.num_window + job.keys.num_latents;
  const int64_t lanes = whole_lanes(job.heads);
  const AttendScratch scratch = attend_scratch(job.scratch, lanes, job.dim, n);
  const auto clear = [](float* memory, int64_t count) {
    __builtin_memset(memory, 0, static_cast<size_t>(count) * sizeof(float));
  };
  const auto least = [](int64_t a, int64_t b) { return a < b ? a : b; };
  clear(scratch.scores, n * lanes);
  lanes_of_heads<L>(job.q, job.heads, job.dim, lanes, scratch.q);
  for (int64_t first = 0; first < n; first += kScoredKeys) {
    prefetch_keys(job.keys, first + kScoredKeys, kScoredKeys, job.dim);
    for (int64_t dim = 0; dim < job.dim; dim += kTileValues<L>) {
      score_tile<L>(job, scratch, first, least(kScoredKeys, n - first), dim,
                    least(kTileValues<L>, job.dim - dim), lanes);
    }
  }
  softmax_of_heads<L>(scratch.scores, n, lanes, job.sink, job.heads, job.scale, scratch.inverse);
  clear(scratch.q, whole_tiles(job.dim) * job.heads);
  for (int64_t first = 0; first < n; first += kTileValues<L>) {
    for (int64_t dim = 0; dim < job.dim; dim += kMixedDims) {
      mix_tile<L>(job, scratch, first, least(kTileValues<L>, n - first), dim,
                  least(kMixedDims, job.dim - dim), lanes);
    }
  }
  write_values<L>(job, scratch);
}

}  // namespace stoker::kernels
