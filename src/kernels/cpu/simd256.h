// AVX2, FMA and F16C as the templates of this folder see them; the counterpart of simd512.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace stoker::kernels {

struct Simd256 {
  using Float = __m256;
  using Word = __m256i;
  static constexpr int64_t kLanes = 8;

#define STOKER_INLINE [[gnu::always_inline]] static inline
  STOKER_INLINE Float zero() {
    return _mm256_setzero_ps();
  }
  STOKER_INLINE Float load(const float* from) {
    return _mm256_loadu_ps(from);
  }
  STOKER_INLINE void store(float* to, Float x) {
    _mm256_storeu_ps(to, x);
  }
  STOKER_INLINE Float broadcast(const float* from) {
    return _mm256_broadcast_ss(from);
  }
  STOKER_INLINE Float fma(Float a, Float b, Float c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  /// acc + a * b, in the register of acc. As an instruction, since g++ 12 spends moves on the
  /// choice between its three forms: a sixth of the time of a tile.
  STOKER_INLINE Float add_product(Float a, Float b, Float acc) {
    asm("vfmadd231ps %1, %2, %0" : "+x"(acc) : "x"(a), "x"(b));
    return acc;
  }
  STOKER_INLINE Float add_product(Float a, const float* x, Float acc) {
    return add_product(a, broadcast(x), acc);
  }
  STOKER_INLINE Float mul(Float a, Float b) {
    return _mm256_mul_ps(a, b);
  }
  STOKER_INLINE Float add(Float a, Float b) {
    return _mm256_add_ps(a, b);
  }
  STOKER_INLINE Float sub(Float a, Float b) {
    return _mm256_sub_ps(a, b);
  }
  STOKER_INLINE Float div(Float a, Float b) {
    return _mm256_div_ps(a, b);
  }
  STOKER_INLINE Float max(Float a, Float b) {
    return _mm256_max_ps(a, b);
  }
  STOKER_INLINE Float min(Float a, Float b) {
    return _mm256_min_ps(a, b);
  }
  STOKER_INLINE Float round(Float x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  STOKER_INLINE Float times_pow2(Float x, Float n) {
    const Word bits =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return mul(x, _mm256_castsi256_ps(bits));
  }
  STOKER_INLINE Float zero_below(Float x, Float value, float limit) {
    return _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_NLT_UQ), value);
  }
  STOKER_INLINE Float bf16_round(Float x) {
    const Word bits = _mm256_castps_si256(x);
    const Word odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const Word up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const Word rounded = _mm256_and_si256(up, _mm256_set1_epi32(static_cast<int>(0xFFFF0000)));
    return _mm256_blendv_ps(_mm256_castsi256_ps(rounded), x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  }

  STOKER_INLINE Float low(Word pairs) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
  }
  STOKER_INLINE Float high(Word pairs) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xFFFF0000))));
  }
  STOKER_INLINE Word load_words(const uint8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }

  /// d << 7 in both halves of the dword of each of 8 rows.
  STOKER_INLINE Word fp4_scales(const uint8_t* d) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(d));
    const Word words = _mm256_cvtepu8_epi32(bytes);
    return _mm256_or_si256(_mm256_slli_epi32(words, 7), _mm256_slli_epi32(words, 23));
  }
  // The bytes of a bf16 come from one table each: of byte 2 * i the even, of byte 2 * i + 1 the odd
  // pair.
  STOKER_INLINE void fp4_of_nibbles(Word nibbles, Word scales, Word& even, Word& odd) {
    const __m128i upper_half =
        _mm_setr_epi8(0, 0x5F, 0x5F, 0x5F, 0x60, 0x60, 0x60, 0x60, 0, static_cast<char>(0xDF),
                      static_cast<char>(0xDF), static_cast<char>(0xDF), static_cast<char>(0xE0),
                      static_cast<char>(0xE0), static_cast<char>(0xE0), static_cast<char>(0xE0));
    const __m128i lower_half = _mm_setr_epi8(
        0, 0, static_cast<char>(0x80), static_cast<char>(0xC0), 0, 0x40, static_cast<char>(0x80),
        static_cast<char>(0xC0), 0, 0, static_cast<char>(0x80), static_cast<char>(0xC0), 0, 0x40,
        static_cast<char>(0x80), static_cast<char>(0xC0));
    const Word upper = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(upper_half), nibbles);
    const Word lower = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(lower_half), nibbles);
    const Word upper_byte = _mm256_set1_epi16(static_cast<int16_t>(0xFF00));
    const Word even_words = _mm256_blendv_epi8(lower, _mm256_slli_epi16(upper, 8), upper_byte);
    const Word odd_words = _mm256_blendv_epi8(_mm256_srli_epi16(lower, 8), upper, upper_byte);
    even = _mm256_subs_epu16(even_words, scales);
    odd = _mm256_subs_epu16(odd_words, scales);
  }
  template <int kRows>
  STOKER_INLINE void fp4(Word codes, Word scales, Word (&pairs)[4]) {
    const Word nibble = _mm256_set1_epi8(0x0F);
    fp4_of_nibbles(_mm256_and_si256(codes, nibble), scales, pairs[0], pairs[2]);
    fp4_of_nibbles(_mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble), scales, pairs[1],
                   pairs[3]);
  }
  /// 4 columns of 8 rows, times 2^-8. The upper halves go through memory, which costs nothing: what
  /// would move them between lanes converts meanwhile.
  STOKER_INLINE void fp8(Word codes, Float (&columns)[4]) {
    const Word mask = _mm256_set1_epi16(static_cast<int16_t>(0xBF80));
    const Word words = _mm256_permute4x64_epi64(codes, 0xD8);  // 0, 2, 1, 3
    const Word odd = _mm256_and_si256(_mm256_srai_epi16(words, 1), mask);
    const Word even = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(words, 8), 1), mask);
    Word stored[2] = {even, odd};
    asm("" : "+m"(stored));  // or the compiler moves them after all
    const auto* const halves = reinterpret_cast<const __m128i*>(stored);
    columns[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(even));
    columns[1] = _mm256_cvtph_ps(_mm256_castsi256_si128(odd));
    columns[2] = _mm256_cvtph_ps(halves[1]);
    columns[3] = _mm256_cvtph_ps(halves[3]);
  }
  STOKER_INLINE void e4m3(const uint8_t* codes, Float& even, Float& odd) {
    const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    const __m128i mask = _mm_set1_epi16(static_cast<int16_t>(0xBF80));
    const __m128i second = _mm_and_si128(_mm_srai_epi16(words, 1), mask);
    const __m128i first = _mm_and_si128(_mm_srai_epi16(_mm_slli_epi16(words, 8), 1), mask);
    even = mul(_mm256_cvtph_ps(first), _mm256_set1_ps(256.0F));
    odd = mul(_mm256_cvtph_ps(second), _mm256_set1_ps(256.0F));
  }
  // Values of e2m1 codes in the low bits of each dword.
  STOKER_INLINE Float e2m1_of(Word index) {
    const Float table = _mm256_setr_ps(0, .5F, 1, 1.5F, 2, 3, 4, 6);
    const Word sign = _mm256_slli_epi32(_mm256_srli_epi32(index, 3), 31);
    return _mm256_xor_ps(_mm256_permutevar8x32_ps(table, index), _mm256_castsi256_ps(sign));
  }
  STOKER_INLINE void e2m1(const uint8_t* codes, Float& even, Float& odd) {
    const Word bytes =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
    odd = e2m1_of(_mm256_srli_epi32(bytes, 4));
    even = e2m1_of(_mm256_and_si256(bytes, _mm256_set1_epi32(15)));
  }
  STOKER_INLINE Float scales_of_16(const float* table, const uint8_t* at) {
    return broadcast(table + at[0]);
  }
  STOKER_INLINE void interleave(Float even, Float odd, Float (&out)[2]) {
    const Float low = _mm256_unpacklo_ps(even, odd);
    const Float high = _mm256_unpackhi_ps(even, odd);
    out[0] = _mm256_permute2f128_ps(low, high, 0x20);
    out[1] = _mm256_permute2f128_ps(low, high, 0x31);
  }
  /// out[j * stride .. + 7], j in [0, 16): dword j of each of 8 records.
  STOKER_INLINE void transpose(const uint8_t* const* records, uint8_t* out, int64_t stride) {
    for (int half = 0; half < 2; ++half) {
      Word r[8];
      Word t[8];
      for (int i = 0; i < 8; ++i) r[i] = load_words(records[i] + half * 32);
      for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
      }
      for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
      }
      for (int b = 0; b < 4; ++b) {
        uint8_t* to = out + (half * 8 + b) * stride;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                            _mm256_permute2x128_si256(r[b], r[4 + b], 0x20));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 4 * stride),
                            _mm256_permute2x128_si256(r[b], r[4 + b], 0x31));
      }
    }
  }
  STOKER_INLINE uint32_t is_above(Float x, Float y) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_GT_OQ)));
  }
  STOKER_INLINE int64_t list_bits(uint64_t bits, int32_t first, const float* x, int32_t* list,
                                  float* values) {
    int64_t count = 0;
    for (; bits != 0; bits &= bits - 1, ++count) {
      const int i = __builtin_ctzll(bits);
      list[count] = first + i;
      values[count] = x[i];
    }
    return count;
  }
#undef STOKER_INLINE
};

}  // namespace stoker::kernels
