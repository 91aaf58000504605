// The Engram gate: how much of what the n-gram memory says goes into each residual stream.
#pragma once

#include <cstdint>

namespace stoker::kernels {

/// One token, in place: streams[k] := fma(gate[k], value, streams[k]), where gate[k] measures how
/// well key k agrees with stream k. streams [hc, hidden]; keys [hc, hidden] and value [hidden] are
/// one row of the projection; weight [hc, hidden] is q_weight * k_weight. Source:
/// tools/reference/v41/model.py, Model.engram.
void engram_gate(const float* keys, const float* value, const float* weight, int32_t hc,
                 int64_t hidden, float eps, float* streams);

}  // namespace stoker::kernels
