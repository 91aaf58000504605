#include "sampling/noise.h"

#include <algorithm>

#include "tensor/arith.h"

namespace stoker::sampling {
namespace {

uint64_t wide_product(uint32_t a, uint32_t b) {
  return static_cast<uint64_t>(a) * b;
}

// w = (word + 1/2) / 2^32 rounded; the noise is -ln(-ln(1 - w)), the rounding of 1 - w made good.
float noise_of_word(uint32_t word) {
  const auto w = static_cast<float>((static_cast<double>(word) + 0.5) * 0x1p-32);
  const float u = std::max(1.0F - w, 0x1p-25F);
  const float e = u == 1.0F ? w : -arith::log(u) * (w / (1.0F - u));
  return -arith::log(e);
}

std::array<uint32_t, 4> words_of(const NoiseSource& source, uint32_t block) {
  return philox({static_cast<uint32_t>(source.position),
                 static_cast<uint32_t>(source.position >> 32), source.stream, block},
                {static_cast<uint32_t>(source.seed), static_cast<uint32_t>(source.seed >> 32)});
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = wide_product(0xD2511F53U, counter[0]);
    const uint64_t p1 = wide_product(0xCD9E8D57U, counter[2]);
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

uint64_t choice_seed(uint64_t seed, uint64_t j) {
  if (j == 0) return seed;
  uint64_t z = seed + j + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

float noise_of(const NoiseSource& source, int32_t id) {
  return noise_of_word(
      words_of(source, static_cast<uint32_t>(id) / 4)[static_cast<size_t>(id) % 4]);
}

void gumbel(const NoiseSource& source, std::span<float> out) {
  for (size_t first = 0; first < out.size(); first += 4) {
    const auto words = words_of(source, static_cast<uint32_t>(first / 4));
    for (size_t i = 0; i < 4 && first + i < out.size(); ++i)
      out[first + i] = noise_of_word(words[i]);
  }
}

}  // namespace stoker::sampling
