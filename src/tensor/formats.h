// The number formats of a checkpoint and of the KV state, with their encoders: round to nearest,
// ties to even code.
//   bf16   the upper half of a float32
//   e4m3   "fn": bias 7, largest 448, no infinities, 0x7F and 0xFF are NaN
//   e2m1   sign and {0, 0.5, 1, 1.5, 2, 3, 4, 6}
//   ue8m0  the power of two 2^(byte - 127); 255 is NaN
// and the records of the KV state that are made of them (docs/formats.md). A record holds exactly
// what the model's own rounding (QAT) leaves, so storing loses nothing.
//
// Source: tools/reference/v41/formats.py.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace stoker {

inline constexpr float kE4m3Max = 448.0F;
inline constexpr float kE2m1Max = 6.0F;

/// Value of each of the 256 e4m3 codes, and of the 16 e2m1 codes.
extern const std::array<float, 256> kE4m3Values;
inline constexpr std::array<float, 16> kE2m1Values = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                                      4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                                      -2.0F, -3.0F, -4.0F, -6.0F};

inline float bf16_decode(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// Nearest bf16, ties to even. NaN stays NaN.
inline uint16_t bf16_encode(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

/// x rounded to bf16.
inline float bf16_round(float x) {
  return bf16_decode(bf16_encode(x));
}

inline float e4m3_decode(uint8_t code) {
  return kE4m3Values[code];
}
inline float e2m1_decode(uint8_t code) {
  return kE2m1Values[code & 15];
}

/// Nearest e4m3 code, saturating at +-448. NaN gives 0x7F.
uint8_t e4m3_encode(float x);
/// Nearest e2m1 code, saturating at +-6. NaN gives some code: scales carry the NaN.
uint8_t e2m1_encode(float x);

inline float ue8m0_decode(uint8_t byte) {
  if (byte == 255) return std::numeric_limits<float>::quiet_NaN();
  if (byte == 0) return std::bit_cast<float>(0x00400000U);  // 2^-127, a denormal
  return std::bit_cast<float>(static_cast<uint32_t>(byte) << 23);
}

/// Byte of the smallest power of two >= x, for a normal x > 0; 255 where that does not fit or x is
/// not finite.
uint8_t ue8m0_at_least(float x);

// ---- records of the KV state ----------------------------------------------------------------

/// Window row, MXFP8: dim e4m3 codes, then dim / 32 ue8m0 scales. dim is a multiple of 32.
constexpr int64_t window_record_bytes(int64_t dim) {
  return dim + dim / 32;
}
/// Latent, NVFP4: dim / 2 bytes of e2m1 codes (even channel in the low nibble), then dim / 16 e4m3
/// scales.
constexpr int64_t latent_record_bytes(int64_t dim) {
  return dim / 2 + dim / 16;
}
/// Index key or query, MXFP4: dim / 2 bytes of e2m1 codes, then dim / 32 ue8m0 scales.
constexpr int64_t index_record_bytes(int64_t dim) {
  return dim / 2 + dim / 32;
}

/// x [dim] -> record. A block with a value that is not finite gets a scale that decodes to NaN.
void encode_window(const float* x, int64_t dim, uint8_t* record);
void encode_latent(const float* x, int64_t dim, uint8_t* record);
void encode_index(const float* x, int64_t dim, uint8_t* record);

/// record -> x [dim]; every value is exact in bf16.
void decode_window(const uint8_t* record, int64_t dim, float* x);
void decode_latent(const uint8_t* record, int64_t dim, float* x);
void decode_index(const uint8_t* record, int64_t dim, float* x);

}  // namespace stoker
