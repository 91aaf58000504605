// AVX2 as row_scans.h sees it, beside what kernels/cpu/simd256.h has; the counterpart of ops512.h.
#pragma once

#include "kernels/cpu/simd256.h"

namespace stoker::sampling {

struct Ops256 : kernels::Simd256 {
  using Mask = __m256;  // all bits of a lane
  using Doubles = __m256d;

#define STOKER_INLINE [[gnu::always_inline]] static inline
  STOKER_INLINE Float set(float value) {
    return _mm256_set1_ps(value);
  }
  STOKER_INLINE Word words(uint32_t value) {
    return _mm256_set1_epi32(static_cast<int32_t>(value));
  }
  STOKER_INLINE Word of_float(Float x) {
    return _mm256_castps_si256(x);
  }
  STOKER_INLINE Float as_float(Word x) {
    return _mm256_castsi256_ps(x);
  }
  /// Beyond what an int holds: the least one.
  STOKER_INLINE Word int_of_float(Float x) {
    return _mm256_cvtps_epi32(x);
  }
  STOKER_INLINE Float float_of_int(Word x) {
    return _mm256_cvtepi32_ps(x);
  }
  STOKER_INLINE Word add_words(Word a, Word b) {
    return _mm256_add_epi32(a, b);
  }
  STOKER_INLINE Word and_words(Word a, Word b) {
    return _mm256_and_si256(a, b);
  }
  STOKER_INLINE Word or_words(Word a, Word b) {
    return _mm256_or_si256(a, b);
  }
  STOKER_INLINE Word max_words(Word a, Word b) {
    return _mm256_max_epu32(a, b);
  }
  template <int kBits>
  STOKER_INLINE Word shift_right(Word x) {
    return _mm256_srli_epi32(x, kBits);
  }
  /// Of the lower halves of each 64 bits.
  STOKER_INLINE Word multiply(Word a, Word b) {
    return _mm256_mul_epu32(a, b);
  }
  /// The upper halves as the lower ones.
  STOKER_INLINE Word upper(Word x) {
    return _mm256_srli_epi64(x, 32);
  }
  STOKER_INLINE Word xor_three(Word a, Word b, Word c) {
    return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
  }
  /// The lower halves of both, those of `low` first.
  STOKER_INLINE Word pairs(Word low, Word high) {
    return _mm256_blend_epi32(low, _mm256_slli_epi64(high, 32), 0xAA);
  }
  STOKER_INLINE Word lane_numbers() {
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  }
  /// Blocks such that in_order() puts block after block.
  STOKER_INLINE Word block_numbers() {
    return _mm256_setr_epi64x(0, 2, 1, 3);
  }
  STOKER_INLINE void in_order(Word first, Word second, Word& early, Word& late) {
    early = _mm256_unpacklo_epi64(first, second);
    late = _mm256_unpackhi_epi64(first, second);
  }

  STOKER_INLINE Mask less(Float a, Float b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
  }
  STOKER_INLINE Mask equal(Float a, Float b) {
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
  }
  STOKER_INLINE Mask not_above(Word a, Word b) {
    return as_float(_mm256_xor_si256(_mm256_cmpgt_epi32(a, b), words(~0U)));
  }
  STOKER_INLINE Mask both(Mask a, Mask b) {
    return _mm256_and_ps(a, b);
  }
  STOKER_INLINE Mask either(Mask a, Mask b) {
    return _mm256_or_ps(a, b);
  }
  STOKER_INLINE uint32_t bits(Mask mask) {
    return static_cast<uint32_t>(_mm256_movemask_ps(mask));
  }
  STOKER_INLINE Float select(Mask mask, Float yes, Float no) {
    return _mm256_blendv_ps(no, yes, mask);
  }
  STOKER_INLINE Word select_words(Mask mask, Word yes, Word no) {
    return of_float(select(mask, as_float(yes), as_float(no)));
  }
  STOKER_INLINE void store_words(int32_t* to, Word x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x);
  }

  /// Those of the 8 values at `x` whose bits are set, one after the other, with their indices from
  /// `first` on.
  STOKER_INLINE void append(uint32_t set, const float* x, int32_t first, int32_t* ids,
                            float* values) {
    for (; set != 0; set &= set - 1) {
      const int i = __builtin_ctz(set);
      *ids++ = first + i;
      *values++ = x[i];
    }
  }

  STOKER_INLINE void store_doubles(double* to, Float x) {
    _mm256_storeu_pd(to, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    _mm256_storeu_pd(to + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
  }
  STOKER_INLINE Doubles no_doubles() {
    return _mm256_setzero_pd();
  }
  STOKER_INLINE void add_doubles(Doubles& sums, Float x) {
    const Doubles low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    sums = _mm256_add_pd(sums, _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))));
  }
  STOKER_INLINE double total(Doubles sums) {
    double parts[4];
    _mm256_storeu_pd(parts, sums);
    return parts[0] + parts[1] + parts[2] + parts[3];
  }
#undef STOKER_INLINE
};

}  // namespace stoker::sampling
