// A level that multiplies float32: a pair is two columns, each with its own fma.
#pragma once

#include <cstdint>

namespace stoker::kernels {

/// kFewRows: up to how many rows of activations weights are converted in registers, with kSums
/// vectors of sums beside them.
template <class Simd, int kFewRows, int kSums>
struct FloatLevel : Simd {
  using Float = typename Simd::Float;
  using Word = typename Simd::Word;
  struct Pair {
    Float first, second;
  };
  using Fp8Scale = Float;
  static constexpr int kStepsPerPair = 2;
  static constexpr int kMaxFewRows = kFewRows;
  static constexpr int kMaxGroupedRows = kFewRows > 2 ? 4 * kFewRows : kFewRows;
  static constexpr int kMaxSums = kSums;
  /// Of how many vectors codes are converted before their products, which then do not wait for each
  /// other.
  static constexpr int kFp4AtOnce = 1;
  static constexpr int kFp8AtOnce = 1;

#define STOKER_INLINE [[gnu::always_inline]] static inline
  STOKER_INLINE Float mac(Float w, Float x, Float acc) {
    return Simd::add_product(w, x, acc);
  }
  STOKER_INLINE Pair of_words(Word pairs) {
    return {Simd::low(pairs), Simd::high(pairs)};
  }
  STOKER_INLINE Pair of_floats(Float first, Float second) {
    return {first, second};
  }
  STOKER_INLINE Float add_pair(Pair w, const float* x, Float acc) {
    acc = Simd::add_product(w.second, x + 1, acc);
    return Simd::add_product(w.first, x, acc);
  }
  STOKER_INLINE void store_pair(float* out, int64_t stride, Pair w) {
    Simd::store(out, w.first);
    Simd::store(out + stride, w.second);
  }
  /// 16 steps of pairs in their order.
  STOKER_INLINE void natural_steps(const float* x, float* out) {
    for (int i = 0; i < 16; i += static_cast<int>(Simd::kLanes))
      Simd::store(out + i, Simd::load(x + i));
  }
  /// Steps of one row: even[0], odd[0], even[1], odd[1] ...
  STOKER_INLINE void store_along(float* out, Float even, Float odd) {
    Float both[2];
    Simd::interleave(even, odd, both);
    Simd::store(out, both[0]);
    Simd::store(out + Simd::kLanes, both[1]);
  }
  /// 2^(e - 119) for a byte 191 - e: codes are read as 2^-8 of what they mean.
  STOKER_INLINE Fp8Scale fp8_scale(uint8_t d) {
    const int bits = (199 - d) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    return Simd::broadcast(&scale);
  }
  template <int kRows>
  STOKER_INLINE void fp8_pairs(Word codes, Fp8Scale scale, Pair (&pairs)[2]) {
    Float columns[4];
    Simd::fp8(codes, columns);
    pairs[0] = {Simd::mul(columns[0], scale), Simd::mul(columns[1], scale)};
    pairs[1] = {Simd::mul(columns[2], scale), Simd::mul(columns[3], scale)};
  }
#undef STOKER_INLINE
};

}  // namespace stoker::kernels
