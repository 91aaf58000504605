// Attention of one token over rows that are keys and values at once, with a learned sink in the
// denominator.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker::kernels {

/// q [heads, dim], exact in bf16; keys [n, dim], exact in bf16, in list order; sink [heads] -> out
/// [heads, dim]. dim is even. `scratch` is resized and overwritten. Source:
/// tools/reference/v41/model.py, Model.attend.
void attend(const float* q, const float* keys, int64_t n, const float* sink, int32_t heads,
            int64_t dim, std::vector<float>& scratch, float* out);

}  // namespace stoker::kernels
