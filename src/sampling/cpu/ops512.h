// AVX-512 as row_scans.h sees it, beside what kernels/cpu/simd512.h has; the counterpart of
// ops256.h.
#pragma once

#include "kernels/cpu/simd512.h"

namespace stoker::sampling {

struct Ops512 : kernels::Simd512 {
  using Mask = __mmask16;
  using Doubles = __m512d;

#define STOKER_INLINE [[gnu::always_inline]] static inline
  STOKER_INLINE Float set(float value) {
    return _mm512_set1_ps(value);
  }
  STOKER_INLINE Word words(uint32_t value) {
    return _mm512_set1_epi32(static_cast<int32_t>(value));
  }
  STOKER_INLINE Word of_float(Float x) {
    return _mm512_castps_si512(x);
  }
  STOKER_INLINE Float as_float(Word x) {
    return _mm512_castsi512_ps(x);
  }
  STOKER_INLINE Word int_of_float(Float x) {
    return _mm512_cvtps_epi32(x);
  }
  STOKER_INLINE Float float_of_int(Word x) {
    return _mm512_cvtepi32_ps(x);
  }
  STOKER_INLINE Word add_words(Word a, Word b) {
    return _mm512_add_epi32(a, b);
  }
  STOKER_INLINE Word and_words(Word a, Word b) {
    return _mm512_and_si512(a, b);
  }
  STOKER_INLINE Word or_words(Word a, Word b) {
    return _mm512_or_si512(a, b);
  }
  STOKER_INLINE Word max_words(Word a, Word b) {
    return _mm512_max_epu32(a, b);
  }
  template <int kBits>
  STOKER_INLINE Word shift_right(Word x) {
    return _mm512_srli_epi32(x, kBits);
  }
  STOKER_INLINE Word multiply(Word a, Word b) {
    return _mm512_mul_epu32(a, b);
  }
  STOKER_INLINE Word upper(Word x) {
    return _mm512_srli_epi64(x, 32);
  }
  STOKER_INLINE Word xor_three(Word a, Word b, Word c) {
    return _mm512_ternarylogic_epi32(a, b, c, 0x96);
  }
  STOKER_INLINE Word pairs(Word low, Word high) {
    return _mm512_mask_mov_epi32(low, 0xAAAA, _mm512_slli_epi64(high, 32));
  }
  STOKER_INLINE Word lane_numbers() {
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
  STOKER_INLINE Word block_numbers() {
    return _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  }
  STOKER_INLINE void in_order(Word first, Word second, Word& early, Word& late) {
    early = _mm512_unpacklo_epi64(first, second);
    late = _mm512_unpackhi_epi64(first, second);
  }

  STOKER_INLINE Mask less(Float a, Float b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
  }
  STOKER_INLINE Mask equal(Float a, Float b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
  }
  STOKER_INLINE Mask not_above(Word a, Word b) {
    return _mm512_cmple_epi32_mask(a, b);
  }
  STOKER_INLINE Mask both(Mask a, Mask b) {
    return static_cast<Mask>(a & b);
  }
  STOKER_INLINE Mask either(Mask a, Mask b) {
    return static_cast<Mask>(a | b);
  }
  STOKER_INLINE uint32_t bits(Mask mask) {
    return mask;
  }
  STOKER_INLINE Float select(Mask mask, Float yes, Float no) {
    return _mm512_mask_mov_ps(no, mask, yes);
  }
  STOKER_INLINE Word select_words(Mask mask, Word yes, Word no) {
    return _mm512_mask_mov_epi32(no, mask, yes);
  }
  STOKER_INLINE void store_words(int32_t* to, Word x) {
    _mm512_storeu_si512(to, x);
  }

  STOKER_INLINE void append(uint32_t set, const float* x, int32_t first, int32_t* ids,
                            float* values) {
    const auto mask = static_cast<Mask>(set);
    const Word indices = add_words(lane_numbers(), words(static_cast<uint32_t>(first)));
    // Whole vectors are stored: compressing into memory is slow on AMD.
    store_words(ids, _mm512_maskz_compress_epi32(mask, indices));
    store(values, _mm512_maskz_compress_ps(mask, load(x)));
  }

  STOKER_INLINE Doubles low_doubles(Float x) {
    return _mm512_cvtps_pd(_mm512_castps512_ps256(x));
  }
  STOKER_INLINE Doubles high_doubles(Float x) {
    return _mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)));
  }
  STOKER_INLINE void store_doubles(double* to, Float x) {
    _mm512_storeu_pd(to, low_doubles(x));
    _mm512_storeu_pd(to + 8, high_doubles(x));
  }
  STOKER_INLINE Doubles no_doubles() {
    return _mm512_setzero_pd();
  }
  STOKER_INLINE void add_doubles(Doubles& sums, Float x) {
    sums = _mm512_add_pd(sums, _mm512_add_pd(low_doubles(x), high_doubles(x)));
  }
  STOKER_INLINE double total(Doubles sums) {
    double parts[8];
    _mm512_storeu_pd(parts, sums);
    double sum = 0;
    for (const double part : parts) sum += part;
    return sum;
  }
#undef STOKER_INLINE
};

}  // namespace stoker::sampling
