// From logits to a token. The choice at a position depends on the logits, the parameters, the seed
// and the position alone. Filters come in this order: temperature, top-k, top-p, min-p; then seeded
// noise. Equal logits: the lower id ranks first.
//
// Source of everything here: tools/reference/v41/sampling.py.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "stoker/result.h"

namespace stoker::sampling {

/// Values in range: temperature >= 0, top_p in [0, 1], min_p in [0, 1].
struct Params {
  double temperature = 1;  ///< 0: the largest logit
  int32_t top_k = 0;       ///< <= 0: off
  double top_p = 1;        ///< >= 1: off
  double min_p = 0;        ///< <= 0: off
};

/// Penalties for tokens that were there before; 1, 0 and 0 are off.
struct Penalties {
  float repetition = 1;
  float presence = 0;
  float frequency = 0;
};

/// Philox4x32-10: four 32-bit words from a counter and a key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Seed of choice j of a request for several: the seed itself for 0.
uint64_t choice_seed(uint64_t seed, uint64_t j);

/// Noise of the ids 0 .. out.size() - 1 at one position.
void gumbel(uint64_t seed, uint64_t position, uint32_t stream, std::span<float> out);

/// In place: logits [vocab]; counts [vocab], occurrences in the output so far; in_prompt [vocab],
/// not 0 where the prompt has it.
void penalise(std::span<float> logits, std::span<const int32_t> counts,
              std::span<const uint8_t> in_prompt, const Penalties& penalties);

/// log softmax, in place: x - max - ln(sum of exp), the sum in 16 lanes.
void logprobs(std::span<float> logits);

/// Buffers that sample() keeps between calls. One for each thread.
struct Scratch {
  std::vector<float> scaled;
  std::vector<float> noise;
  std::vector<int32_t> rank;
  std::vector<uint64_t> mass;
};

/// One token id. `logits` [vocab]; -inf bans an id. Error: kInternal where a logit is NaN or +inf,
/// or where all are -inf. If dividing by the temperature overflows, the largest logit is taken, as
/// for temperature 0.
Result<int32_t> sample(std::span<const float> logits, uint64_t seed, uint64_t position,
                       const Params& params, Scratch& scratch);

}  // namespace stoker::sampling
