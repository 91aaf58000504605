// AVX-512 as the templates of this folder see it (docs/performance.md, "Kernels"). Only for the
// level's own translation units: everything here is inlined into them.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace stoker::kernels {

struct Simd512 {
  using Float = __m512;
  using Word = __m512i;
  static constexpr int64_t kLanes = 16;

#define STOKER_INLINE [[gnu::always_inline]] static inline
  STOKER_INLINE Float zero() {
    return _mm512_setzero_ps();
  }
  STOKER_INLINE Float load(const float* from) {
    return _mm512_loadu_ps(from);
  }
  STOKER_INLINE void store(float* to, Float x) {
    _mm512_storeu_ps(to, x);
  }
  STOKER_INLINE Float broadcast(const float* from) {
    return _mm512_set1_ps(*from);
  }
  STOKER_INLINE Float fma(Float a, Float b, Float c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  /// acc + a * b, in the register of acc. As an instruction, since g++ 12 spends moves on the
  /// choice between its three forms: a sixth of the time of a tile.
  STOKER_INLINE Float add_product(Float a, Float b, Float acc) {
    asm("vfmadd231ps %1, %2, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
  }
  /// acc + a * *x. The value comes from memory with every product: where it is used with many
  /// vectors, g++ 12 would keep it in a register and the sums in memory.
  STOKER_INLINE Float add_product(Float a, const float* x, Float acc) {
    asm("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(acc) : "m"(*x), "v"(a));
    return acc;
  }
  STOKER_INLINE Float mul(Float a, Float b) {
    return _mm512_mul_ps(a, b);
  }
  STOKER_INLINE Float add(Float a, Float b) {
    return _mm512_add_ps(a, b);
  }
  STOKER_INLINE Float sub(Float a, Float b) {
    return _mm512_sub_ps(a, b);
  }
  STOKER_INLINE Float div(Float a, Float b) {
    return _mm512_div_ps(a, b);
  }
  /// b where one of them is NaN or both are zeros.
  STOKER_INLINE Float max(Float a, Float b) {
    return _mm512_max_ps(a, b);
  }
  STOKER_INLINE Float min(Float a, Float b) {
    return _mm512_min_ps(a, b);
  }
  STOKER_INLINE Float round(Float x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  /// x * 2^n for the whole numbers n in [-126, 127]; x is 0 or stays normal.
  STOKER_INLINE Float times_pow2(Float x, Float n) {
    const Word bits =
        _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23);
    return mul(x, _mm512_castsi512_ps(bits));
  }
  /// x where it is not below `limit` (NaN included), else 0.
  STOKER_INLINE Float zero_below(Float x, Float value, float limit) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_NLT_UQ), value);
  }
  /// Nearest bf16, ties to even; NaN stays NaN.
  STOKER_INLINE Float bf16_round(Float x) {
    const Word bits = _mm512_castps_si512(x);
    const Word odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const Word up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    const Word rounded = _mm512_and_si512(up, _mm512_set1_epi32(static_cast<int>(0xFFFF0000)));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_mov_ps(_mm512_castsi512_ps(rounded), nan, x);
  }

  /// Lower and upper halves of each dword as the bf16 numbers that they are.
  STOKER_INLINE Float low(Word pairs) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  }
  STOKER_INLINE Float high(Word pairs) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000))));
  }
  STOKER_INLINE Word load_words(const uint8_t* from) {
    return _mm512_loadu_si512(from);
  }

  /// bf16 of each e2m1 code times 2^64, at both halves of the index's bit 4.
  STOKER_INLINE Word fp4_table() {
    const __m256i half = _mm256_setr_epi16(
        0, 0x5F00, 0x5F80, 0x5FC0, 0x6000, 0x6040, 0x6080, 0x60C0, 0, static_cast<int16_t>(0xDF00),
        static_cast<int16_t>(0xDF80), static_cast<int16_t>(0xDFC0), static_cast<int16_t>(0xE000),
        static_cast<int16_t>(0xE040), static_cast<int16_t>(0xE080), static_cast<int16_t>(0xE0C0));
    return _mm512_broadcast_i64x4(half);
  }
  /// d << 7 in both halves of the dword of each of 16 rows, from their bytes d.
  STOKER_INLINE Word fp4_scales(const uint8_t* d) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(d));
    const Word words = _mm512_cvtepu8_epi32(bytes);
    return _mm512_or_si512(_mm512_slli_epi32(words, 7), _mm512_slli_epi32(words, 23));
  }
  /// 8 columns of 16 rows as pairs (t, t + 4), scaled, each a dword of two bf16.
  template <int kRows>
  STOKER_INLINE void fp4(Word codes, Word scales, Word (&pairs)[4]) {
    const Word table = fp4_table();
    pairs[0] = _mm512_subs_epu16(_mm512_permutexvar_epi16(codes, table), scales);
    pairs[1] =
        _mm512_subs_epu16(_mm512_permutexvar_epi16(_mm512_srli_epi32(codes, 4), table), scales);
    pairs[2] =
        _mm512_subs_epu16(_mm512_permutexvar_epi16(_mm512_srli_epi32(codes, 8), table), scales);
    pairs[3] =
        _mm512_subs_epu16(_mm512_permutexvar_epi16(_mm512_srli_epi32(codes, 12), table), scales);
  }
  /// 4 columns of 16 rows, times 2^-8: e4m3 codes become halves of the same bits.
  STOKER_INLINE void fp8(Word codes, Float (&columns)[4]) {
    const Word order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const Word mask = _mm512_set1_epi16(static_cast<int16_t>(0xBF80));
    const Word words = _mm512_permutexvar_epi64(order, codes);
    const Word odd = _mm512_and_si512(_mm512_srai_epi16(words, 1), mask);
    const Word even = _mm512_and_si512(_mm512_srai_epi16(_mm512_slli_epi16(words, 8), 1), mask);
    columns[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(even));
    columns[1] = _mm512_cvtph_ps(_mm512_castsi512_si256(odd));
    columns[2] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(even, 1));
    columns[3] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(odd, 1));
  }
  /// 32 e4m3 codes, the even and the odd ones.
  STOKER_INLINE void e4m3(const uint8_t* codes, Float& even, Float& odd) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    const __m256i mask = _mm256_set1_epi16(static_cast<int16_t>(0xBF80));
    const __m256i second = _mm256_and_si256(_mm256_srai_epi16(words, 1), mask);
    const __m256i first = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(words, 8), 1), mask);
    even = mul(_mm512_cvtph_ps(first), _mm512_set1_ps(256.0F));
    odd = mul(_mm512_cvtph_ps(second), _mm512_set1_ps(256.0F));
  }
  STOKER_INLINE Float e2m1_table() {
    return _mm512_setr_ps(0, .5F, 1, 1.5F, 2, 3, 4, 6, -0.F, -.5F, -1, -1.5F, -2, -3, -4, -6);
  }
  /// Values of 32 e2m1 codes in 16 bytes, the even ones, which are in the low nibbles, and the odd.
  STOKER_INLINE void e2m1(const uint8_t* codes, Float& even, Float& odd) {
    const Word bytes =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    even = _mm512_permutexvar_ps(bytes, e2m1_table());
    odd = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), e2m1_table());
  }
  /// The scale of each lane of e2m1()'s results: one for every 16 codes, from table [256].
  STOKER_INLINE Float scales_of_16(const float* table, const uint8_t* at) {
    return _mm512_mask_mov_ps(broadcast(table + at[0]), 0xFF00, broadcast(table + at[1]));
  }
  /// even[0], odd[0], even[1], odd[1] ... as two vectors.
  STOKER_INLINE void interleave(Float even, Float odd, Float (&out)[2]) {
    const Word first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const Word second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    out[0] = _mm512_permutex2var_ps(even, first, odd);
    out[1] = _mm512_permutex2var_ps(even, second, odd);
  }
  /// out[j * stride .. + 15], j in [0, 16): dword j of each of 16 records.
  STOKER_INLINE void transpose(const uint8_t* const* records, uint8_t* out, int64_t stride) {
    Word r[16];
    for (int i = 0; i < 16; ++i) r[i] = load_words(records[i]);
    Word t[16];
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
      r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
      r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
      r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
      r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    // r[4 * a + b]: in its 128-bit lane c, dword 4 * c + b of records 4 * a .. 4 * a + 3.
    for (int b = 0; b < 4; ++b) {
      const Word x = _mm512_shuffle_i32x4(r[b], r[4 + b], 0x88);  // lanes 0, 2 of both
      const Word y = _mm512_shuffle_i32x4(r[b], r[4 + b], 0xDD);  // lanes 1, 3
      const Word z = _mm512_shuffle_i32x4(r[8 + b], r[12 + b], 0x88);
      const Word w = _mm512_shuffle_i32x4(r[8 + b], r[12 + b], 0xDD);
      _mm512_storeu_si512(out + b * stride, _mm512_shuffle_i32x4(x, z, 0x88));
      _mm512_storeu_si512(out + (4 + b) * stride, _mm512_shuffle_i32x4(y, w, 0x88));
      _mm512_storeu_si512(out + (8 + b) * stride, _mm512_shuffle_i32x4(x, z, 0xDD));
      _mm512_storeu_si512(out + (12 + b) * stride, _mm512_shuffle_i32x4(y, w, 0xDD));
    }
  }
  /// Bit i: lane i of x is above that of y; not where one is NaN.
  STOKER_INLINE uint32_t is_above(Float x, Float y) {
    return _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ);
  }
  /// first + i and x[i] for every bit i that is set, ascending, in list [64] and values [64], which
  /// may be x or lie before it; their number. Whole vectors are stored: compressing into memory is
  /// a hundred operations on AMD.
  STOKER_INLINE int64_t list_bits(uint64_t bits, int32_t first, const float* x, int32_t* list,
                                  float* values) {
    const Word step = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int64_t count = 0;
    for (int i = 0; i < 64; i += 16) {
      const auto mask = static_cast<__mmask16>(bits >> i);
      const Word index = _mm512_add_epi32(step, _mm512_set1_epi32(first + i));
      _mm512_storeu_si512(list + count, _mm512_maskz_compress_epi32(mask, index));
      store(values + count, _mm512_maskz_compress_ps(mask, load(x + i)));
      count += __builtin_popcount(mask);
    }
    return count;
  }
#undef STOKER_INLINE
};

}  // namespace stoker::kernels
