// Seeded noise, one number for each id and position: the only randomness there is.
//
// Source: tools/reference/v41/sampling.py.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace stoker::sampling {

/// Philox4x32-10: four 32-bit words from a counter and a key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Seed of choice j of a request for several: the seed itself for 0.
uint64_t choice_seed(uint64_t seed, uint64_t j);

/// Where noise is taken from. Stream 0 is the choice of tokens.
struct NoiseSource {
  uint64_t seed = 0;
  uint64_t position = 0;  ///< of the token that is chosen
  uint32_t stream = 0;
};

/// Noise of one id, in [-2.853, 22.874].
float noise_of(const NoiseSource& source, int32_t id);

/// Noise of the ids 0 .. out.size() - 1.
void gumbel(const NoiseSource& source, std::span<float> out);

}  // namespace stoker::sampling
