// From shaped logits to a token: temperature, top-k, top-p, min-p, seeded noise. Bit for bit what
// plain::sample() gives, without a sort and with noise for those ids alone that can win.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/noise.h"
#include "sampling/params.h"
#include "sampling/scratch.h"

namespace stoker::sampling {

/// `logits` [vocab]: shaped, none NaN, the largest `most` > -inf. The calling thread keeps
/// denormals (KeepDenormals). Of the params, temperature and filters alone are read.
int32_t draw(std::span<const float> logits, float most, const NoiseSource& source,
             const Params& params, Scratch& scratch);

}  // namespace stoker::sampling
