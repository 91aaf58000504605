#include "tensor/formats.h"

#include <algorithm>

#include "tensor/arith.h"

namespace stoker {
namespace {

constexpr std::array<float, 256> make_e4m3_values() {
  std::array<float, 256> values{};
  for (uint32_t code = 0; code < 256; ++code) {
    const uint32_t exponent = (code >> 3) & 15;
    const uint32_t mantissa = code & 7;
    float magnitude = 0;
    if ((code & 0x7F) == 0x7F) {
      magnitude = std::numeric_limits<float>::quiet_NaN();
    } else if (exponent == 0) {
      magnitude = static_cast<float>(mantissa) / 512.0F;
    } else {
      magnitude = std::bit_cast<float>(((exponent + 120) << 23) | (mantissa << 20));
    }
    values[code] = (code & 0x80) != 0 ? -magnitude : magnitude;
  }
  return values;
}

// Largest magnitude of x [n]; NaN where one of them is NaN.
float amax(const float* x, int64_t n) {
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float magnitude = std::abs(x[i]);
    if (std::isnan(magnitude)) return magnitude;
    largest = std::max(largest, magnitude);
  }
  return largest;
}

float clamp_to(float x, float limit) {
  return std::min(std::max(x, -limit), limit);
}

// The ue8m0 byte of a block: smallest power of two >= max(amax, floor) * (1 / limit).
uint8_t block_scale(float largest, float floor, float limit) {
  if (!std::isfinite(largest)) return 255;
  return ue8m0_at_least(std::max(largest, floor) * (1.0F / limit));
}

// Codes of x / scale, two to a byte, the even channel in the low nibble.
void encode_e2m1_pairs(const float* x, int64_t n, float scale, uint8_t* codes) {
  for (int64_t i = 0; i < n; i += 2) {
    const uint8_t low = e2m1_encode(clamp_to(x[i] / scale, kE2m1Max));
    const uint8_t high = e2m1_encode(clamp_to(x[i + 1] / scale, kE2m1Max));
    codes[i / 2] = static_cast<uint8_t>(low | (high << 4));
  }
}

// The two values of each byte of e2m1 codes.
constexpr std::array<std::array<float, 2>, 256> make_e2m1_pairs() {
  std::array<std::array<float, 2>, 256> pairs{};
  for (size_t byte = 0; byte < pairs.size(); ++byte)
    pairs[byte] = {kE2m1Values[byte & 15], kE2m1Values[byte >> 4]};
  return pairs;
}

constexpr std::array<std::array<float, 2>, 256> kE2m1Pairs = make_e2m1_pairs();

void decode_e2m1_pairs(const uint8_t* codes, int64_t n, float scale, float* x) {
  for (int64_t i = 0; i < n / 2; ++i) {
    const std::array<float, 2>& pair = kE2m1Pairs[codes[i]];
    x[2 * i] = pair[0] * scale;
    x[2 * i + 1] = pair[1] * scale;
  }
}

}  // namespace

constinit const std::array<float, 256> kE4m3Values = make_e4m3_values();

uint8_t e4m3_encode(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80);
  if (std::isnan(x)) return 0x7F;
  const float magnitude = std::min(std::abs(x), kE4m3Max);
  if (magnitude < 0x1p-6F) {  // subnormal: multiples of 2^-9, the product is exact
    return sign | static_cast<uint8_t>(std::nearbyint(magnitude * 512.0F));
  }
  // Keep 3 mantissa bits, nearest even; a carry moves into the exponent as it should.
  const auto m = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = (m + 0x7FFFF + ((m >> 20) & 1)) >> 20;
  return sign | static_cast<uint8_t>(rounded - (120U << 3));
}

uint8_t e2m1_encode(float x) {
  const float magnitude = std::abs(x);
  const int code = static_cast<int>(magnitude > 0.25F) + static_cast<int>(magnitude >= 0.75F) +
                   static_cast<int>(magnitude > 1.25F) + static_cast<int>(magnitude >= 1.75F) +
                   static_cast<int>(magnitude > 2.5F) + static_cast<int>(magnitude >= 3.5F) +
                   static_cast<int>(magnitude > 5.0F);
  return static_cast<uint8_t>(code | (std::signbit(x) ? 8 : 0));
}

uint8_t ue8m0_at_least(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t exponent = ((bits >> 23) & 0xFF) + static_cast<uint32_t>((bits & 0x7FFFFF) != 0);
  return static_cast<uint8_t>(std::min(exponent, 255U));
}

void encode_window(const float* x, int64_t dim, uint8_t* record) {
  for (int64_t block = 0; block < dim / 32; ++block) {
    const float* in = x + block * 32;
    const uint8_t byte = block_scale(amax(in, 32), 1e-4F, kE4m3Max);
    const float scale = ue8m0_decode(byte);
    record[dim + block] = byte;
    for (int64_t i = 0; i < 32; ++i)
      record[block * 32 + i] = e4m3_encode(clamp_to(in[i] / scale, kE4m3Max));
  }
}

void encode_latent(const float* x, int64_t dim, uint8_t* record) {
  for (int64_t block = 0; block < dim / 16; ++block) {
    const float* in = x + block * 16;
    const float largest = amax(in, 16);
    const uint8_t byte = std::isfinite(largest)
                             ? e4m3_encode(std::max(largest, 6 * 0x1p-9F) / kE2m1Max)
                             : uint8_t{0x7F};
    record[dim / 2 + block] = byte;
    encode_e2m1_pairs(in, 16, e4m3_decode(byte), record + block * 8);
  }
}

void encode_index(const float* x, int64_t dim, uint8_t* record) {
  for (int64_t block = 0; block < dim / 32; ++block) {
    const float* in = x + block * 32;
    const uint8_t byte = block_scale(amax(in, 32), 6 * 0x1p-126F, kE2m1Max);
    record[dim / 2 + block] = byte;
    encode_e2m1_pairs(in, 32, ue8m0_decode(byte), record + block * 16);
  }
}

void decode_window(const uint8_t* record, int64_t dim, float* x) {
  for (int64_t block = 0; block < dim / 32; ++block) {
    const float scale = ue8m0_decode(record[dim + block]);
    for (int64_t i = block * 32; i < (block + 1) * 32; ++i) x[i] = e4m3_decode(record[i]) * scale;
  }
}

void decode_latent(const uint8_t* record, int64_t dim, float* x) {
  for (int64_t block = 0; block < dim / 16; ++block) {
    decode_e2m1_pairs(record + block * 8, 16, e4m3_decode(record[dim / 2 + block]), x + block * 16);
  }
}

void decode_index(const uint8_t* record, int64_t dim, float* x) {
  for (int64_t block = 0; block < dim / 32; ++block) {
    decode_e2m1_pairs(record + block * 16, 32, ue8m0_decode(record[dim / 2 + block]),
                      x + block * 32);
  }
}

}  // namespace stoker
