// The level that multiplies pairs of bf16 (VDPBF16PS): of each pair the second product is added
// first, as everywhere.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/cpu/simd512.h"

namespace stoker::kernels {

/// Upper or lower bytes of the bf16 of each positive e4m3 code times 2^64.
struct E4m3Bytes {
  uint8_t bytes[128] = {};
};
constexpr E4m3Bytes e4m3_bytes(bool upper) {
  E4m3Bytes out;
  for (uint32_t code = 0; code < 127; ++code) {
    const uint32_t exponent = code >> 3;
    const uint32_t mantissa = code & 7;
    const float value = exponent == 0
                            ? static_cast<float>(mantissa) * 0x1p-9F
                            : std::bit_cast<float>(((exponent + 120) << 23) | (mantissa << 20));
    const uint32_t bits = std::bit_cast<uint32_t>(value * 0x1p64F) >> 16;
    out.bytes[code] = static_cast<uint8_t>(upper ? bits >> 8 : bits);
  }
  return out;
}

struct Bf16Level : Simd512 {
  using Pair = Word;
  using Fp8Scale = Word;
  static constexpr int kStepsPerPair = 1;
  static constexpr int kMaxFewRows = 8;
  static constexpr int kMaxGroupedRows = 1 << 20;
  static constexpr int kMaxSums = 16;
  static constexpr int kFp4AtOnce = 1;
  static constexpr int kFp8AtOnce = 1;

#define STOKER_INLINE [[gnu::always_inline]] static inline
  STOKER_INLINE Float mac(Float w, Float x, Float acc) {
    return _mm512_dpbf16_ps(acc, std::bit_cast<__m512bh>(w), std::bit_cast<__m512bh>(x));
  }
  STOKER_INLINE Pair of_words(Word pairs) {
    return pairs;
  }
  STOKER_INLINE Pair of_floats(Float first, Float second) {
    const Word upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
    return _mm512_or_si512(_mm512_and_si512(_mm512_castps_si512(second), upper),
                           _mm512_srli_epi32(_mm512_castps_si512(first), 16));
  }
  /// The value comes from memory with every product, as Simd512::add_product has it.
  STOKER_INLINE Float add_pair(Pair w, const float* x, Float acc) {
    asm("vdpbf16ps %1%{1to16%}, %2, %0" : "+v"(acc) : "m"(*x), "v"(w));
    return acc;
  }
  STOKER_INLINE void store_pair(float* out, int64_t /*stride*/, Pair w) {
    _mm512_storeu_si512(out, w);
  }
  /// 16 steps of pairs in their order, from 32 numbers that are exact.
  STOKER_INLINE void natural_steps(const float* x, float* out) {
    const Word halves = _mm512_permutex2var_epi16(_mm512_castps_si512(load(x)), upper_halves(),
                                                  _mm512_castps_si512(load(x + 16)));
    store(out, _mm512_castsi512_ps(halves));
  }
  // Places of the upper halves of two vectors.
  STOKER_INLINE Word upper_halves() {
    alignas(64) static constexpr uint16_t kPlaces[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                         23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                         45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    return _mm512_load_si512(kPlaces);
  }
  /// Steps of one row: the pairs (even[0], odd[0]), (even[1], odd[1]) ...
  STOKER_INLINE void store_along(float* out, Float even, Float odd) {
    store(out, _mm512_castsi512_ps(of_floats(even, odd)));
  }
  /// t - scale, 0 where that is below 0. AMD subtracts with saturation in the pipes that multiply:
  /// beside many products two other operations take less time.
  template <bool kBesideMany>
  STOKER_INLINE Word scaled(Word t, Word scale) {
    if constexpr (kBesideMany) return _mm512_sub_epi16(_mm512_max_epu16(t, scale), scale);
    return _mm512_subs_epu16(t, scale);
  }
  template <int kRows>
  STOKER_INLINE void fp4(Word codes, Word scales, Word (&pairs)[4]) {
    constexpr bool kMany = kRows >= 4;
    const Word table = fp4_table();
    pairs[0] = scaled<kMany>(_mm512_permutexvar_epi16(codes, table), scales);
    for (unsigned t = 1; t < 4; ++t) {
      const Word moved = _mm512_srli_epi32(codes, 4 * t);
      pairs[t] = scaled<kMany>(_mm512_permutexvar_epi16(moved, table), scales);
    }
  }
  /// d << 7 in every word.
  STOKER_INLINE Fp8Scale fp8_scale(uint8_t d) {
    return _mm512_set1_epi16(static_cast<int16_t>(d << 7));
  }
  template <int kRows>
  STOKER_INLINE void fp8_pairs(Word codes, Fp8Scale scale, Pair (&pairs)[2]) {
    constexpr bool kMany = kRows >= 7;
    alignas(64) static constexpr E4m3Bytes kUpper = e4m3_bytes(true);
    alignas(64) static constexpr E4m3Bytes kLower = e4m3_bytes(false);
    const Word lower =
        _mm512_permutex2var_epi8(load_words(kLower.bytes), codes, load_words(kLower.bytes + 64));
    const Word magnitude =
        _mm512_permutex2var_epi8(load_words(kUpper.bytes), codes, load_words(kUpper.bytes + 64));
    const Word sign = _mm512_set1_epi8(static_cast<char>(0x80));
    const Word upper = _mm512_ternarylogic_epi32(magnitude, codes, sign, 0xF8);  // a | (b & c)
    pairs[0] = scaled<kMany>(_mm512_unpacklo_epi8(lower, upper), scale);
    pairs[1] = scaled<kMany>(_mm512_unpackhi_epi8(lower, upper), scale);
  }
#undef STOKER_INLINE
};

}  // namespace stoker::kernels
