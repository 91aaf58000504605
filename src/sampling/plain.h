// The plain twin of everything here that is fast: over the whole vocabulary, one id after the
// other, as tools/reference/v41/sampling.py has it. The tests hold the fast functions against it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/noise.h"
#include "sampling/params.h"
#include "stoker/result.h"

namespace stoker::sampling::plain {

/// Logits [vocab] as bias, bans and penalties leave them, all but a forced token banned. `answer`:
/// the tokens chosen before.
std::vector<float> shaped(std::span<const float> logits, const Params& params,
                          std::span<const int32_t> prompt, std::span<const int32_t> answer);

/// In place: logits [vocab]; counts [vocab], occurrences in the answer so far; in_prompt [vocab],
/// not 0 where the prompt has it.
void penalise(std::span<float> logits, std::span<const int32_t> counts,
              std::span<const uint8_t> in_prompt, const Penalties& penalties);

/// One token from shaped logits [vocab], at least one above -inf and none NaN. The largest, if
/// dividing by the temperature overflows.
int32_t sample(std::span<const float> logits, const NoiseSource& source, const Params& params);

/// log softmax, in place: x - max - ln(sum of exp), the sum in 16 lanes.
void logprobs(std::span<float> logits);

}  // namespace stoker::sampling::plain
