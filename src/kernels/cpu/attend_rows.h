// Attention of one token over stored records. Lanes are heads while scores are made and channels
// while values are mixed; records are decoded twice, 64 dims of 64 of them at a time.
#pragma once

#include <cstdint>

#include "kernels/cpu/key_scale.h"
#include "kernels/cpu/levels.h"
#include "kernels/cpu/tile.h"

namespace stoker::kernels {

inline constexpr int64_t kChunkKeys = 64;
inline constexpr int64_t kTileDims = 64;

[[gnu::always_inline]] constexpr int64_t whole_lanes(int64_t n) {
  return (n + 15) / 16 * 16;
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

/// The scratch of attend(), in this order.
struct AttendScratch {
  float* q;       ///< [dim, lanes]
  float* scores;  ///< [keys, lanes]
};

[[gnu::always_inline]] inline AttendScratch attend_scratch(float* memory, int64_t lanes,
                                                           int64_t dim) {
  return {memory, memory + dim * lanes};
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

/// Dims [first, first + width) of a record -> out [width]; width is a multiple of 32, or of 16 for
/// latents.
template <class L>
[[gnu::always_inline]] inline void decode_window_dims(const uint8_t* record, int64_t dim,
                                                      int64_t first, int64_t width, float* out) {
  for (int64_t at = 0; at < width; at += 32) {
    const float scale = key_scale(record[dim + (first + at) / 32]);
    const auto factor = L::broadcast(&scale);
    for (int64_t i = at; i < at + 32; i += L::kLanes)
      L::store(out + i, L::mul(L::e4m3(record + first + i), factor));
  }
}

template <class L>
[[gnu::always_inline]] inline void decode_latent_dims(const uint8_t* record, int64_t dim,
                                                      int64_t first, int64_t width, float* out) {
  static constexpr E4m3Table kScales = e4m3_table();
  for (int64_t at = 0; at < width; at += 16) {
    const auto factor = L::broadcast(kScales.values + record[dim / 2 + (first + at) / 16]);
    for (int64_t i = at; i < at + 16; i += L::kLanes)
      L::store(out + i, L::mul(L::e2m1(record + (first + i) / 2), factor));
  }
}

/// Dims [dim_first, dim_first + width) of keys [first, first + count) as [64, 64].
template <class L>
inline void decode_keys(const KeyRecords& keys, int64_t first, int64_t count, int64_t dim,
                        int64_t dim_first, int64_t width, float* out) {
  for (int64_t i = first; i < first + count; ++i, out += kTileDims) {
    if (i < keys.num_window) {
      decode_window_dims<L>(keys.window[i], dim, dim_first, width, out);
    } else {
      decode_latent_dims<L>(keys.latents[i - keys.num_window], dim, dim_first, width, out);
    }
  }
}

/// Asks for the records of a chunk.
inline void prefetch_keys(const KeyRecords& keys, int64_t first, int64_t count, int64_t dim) {
  const int64_t end = keys.num_window + keys.num_latents;
  for (int64_t i = first; i < first + count && i < end; ++i) {
    const bool in_window = i < keys.num_window;
    const uint8_t* record = in_window ? keys.window[i] : keys.latents[i - keys.num_window];
    const int64_t bytes = in_window ? dim + dim / 32 : dim / 2 + dim / 16;
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(record + at);
  }
}

/// q [heads, dim] -> out [dim, lanes], zeros where there is no head. dim is a multiple of 16.
template <class L>
inline void lanes_of_heads(const float* q, int32_t heads, int64_t dim, int64_t lanes, float* out) {
  static constexpr float kNone[16] = {};
  for (int64_t lane = 0; lane < lanes; lane += L::kLanes) {
    for (int64_t first = 0; first < dim; first += 16) {
      const uint8_t* rows[L::kLanes];
      for (int64_t i = 0; i < L::kLanes; ++i) {
        const float* row = lane + i < heads ? q + (lane + i) * dim + first : kNone;
        rows[i] = reinterpret_cast<const uint8_t*>(row);
      }
      L::transpose(rows, reinterpret_cast<uint8_t*>(out + first * lanes + lane),
                   lanes * static_cast<int64_t>(sizeof(float)));
    }
  }
}

/// scores [n, lanes] -> shares rounded to bf16, in place; inverse [heads] := 1 / total.
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
    for (int64_t row = 0; row < n; ++row) {
      float* score = scores + row * lanes + lane;
      const Float share = exp_of<L>(L::fma(L::load(score), scale, minus_top));
      total = row == 0 ? share : L::add(total, share);
      L::store(score, L::bf16_round(share));
    }
    total = L::add(total, exp_of<L>(L::sub(own, top)));
    float inverses[L::kLanes];
    L::store(inverses, L::div(L::broadcast(&one), total));
    for (int64_t i = 0; i < L::kLanes && lane + i < heads; ++i) inverse[lane + i] = inverses[i];
  }
}

/// use(first dim, width, keys [64, 64]) for keys [first, first + count), 64 dims at a time.
template <class L, class Use>
inline void for_each_tile_of_dims(const AttendJob& job, int64_t first, int64_t count,
                                  const Use& use) {
  alignas(64) float keys[kChunkKeys * kTileDims];
  for (int64_t dim = 0; dim < job.dim; dim += kTileDims) {
    const int64_t width = job.dim - dim < kTileDims ? job.dim - dim : kTileDims;
    decode_keys<L>(job.keys, first, count, job.dim, dim, width, keys);
    use(dim, width, static_cast<const float*>(keys));
  }
}

/// Scores of keys [first, first + count).
template <class L>
inline void score_chunk(const AttendJob& job, const AttendScratch& scratch, int64_t first,
                        int64_t count, int64_t lanes) {
  for_each_tile_of_dims<L>(job, first, count, [&](int64_t dim, int64_t width, const float* keys) {
    TileArgs args;
    args.w = scratch.q + dim * lanes;
    args.w_stride = lanes;
    args.x = keys;
    args.x_row = kTileDims;
    args.x_step = 1;
    args.steps = width;
    args.acc = scratch.scores + first * lanes;
    args.acc_row = lanes;
    tiles<L, Order::kPairs>(count, lanes, args);
  });
}

/// Adds the shares of keys [first, first + count) to the outputs.
template <class L>
inline void mix_chunk(const AttendJob& job, const AttendScratch& scratch, int64_t first,
                      int64_t count, int64_t lanes) {
  for_each_tile_of_dims<L>(job, first, count, [&](int64_t dim, int64_t width, const float* keys) {
    TileArgs args;
    args.w = keys;
    args.w_stride = kTileDims;
    args.x = scratch.scores + first * lanes;
    args.x_row = 1;
    args.x_step = lanes;
    args.steps = count;
    args.acc = job.out + dim;
    args.acc_row = job.dim;
    tiles<L, Order::kPairs>(job.heads, width, args);
  });
}

template <class L>
void attend_rows(const AttendJob& job) {
  const int64_t n = job.keys.num_window + job.keys.num_latents;
  const int64_t lanes = whole_lanes(job.heads);
  const AttendScratch scratch = attend_scratch(job.scratch, lanes, job.dim);
  __builtin_memset(scratch.scores, 0, static_cast<size_t>(n * lanes) * sizeof(float));
  __builtin_memset(job.out, 0, static_cast<size_t>(job.heads * job.dim) * sizeof(float));
  lanes_of_heads<L>(job.q, job.heads, job.dim, lanes, scratch.q);
  const auto count_from = [n](int64_t first) {
    return n - first < kChunkKeys ? n - first : kChunkKeys;
  };
  for (int64_t first = 0; first < n; first += kChunkKeys) {
    prefetch_keys(job.keys, first + kChunkKeys, kChunkKeys, job.dim);
    score_chunk<L>(job, scratch, first, count_from(first), lanes);
  }
  float* inverse = scratch.q;  // no longer needed
  softmax_of_heads<L>(scratch.scores, n, lanes, job.sink, job.heads, job.scale, inverse);
  for (int64_t first = 0; first < n; first += kChunkKeys)
    mix_chunk<L>(job, scratch, first, count_from(first), lanes);
  for (int32_t head = 0; head < job.heads; ++head) {
    const auto factor = L::broadcast(inverse + head);
    float* out = job.out + head * job.dim;
    for (int64_t i = 0; i < job.dim; i += L::kLanes)
      L::store(out + i, L::mul(L::load(out + i), factor));
  }
}

}  // namespace stoker::kernels
