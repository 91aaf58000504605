// Log-probabilities of the tokens at one position, those of plain::logprobs() for the few that are
// asked for.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/scratch.h"
#include "stoker/logprobs.h"
#include "stoker/result.h"

namespace stoker::sampling {

/// Of `token` and of the num_top likeliest ones, fewer if the vocabulary is smaller; `logits`
/// [vocab] as the model gave them. Error: kInternal where one is NaN or infinite.
Result<PositionLogprobs> logprobs_of(std::span<const float> logits, int32_t token, int64_t num_top,
                                     Scratch& scratch);

/// The first logit that is NaN or infinite, as an error.
Error not_finite(std::span<const float> logits);

}  // namespace stoker::sampling
