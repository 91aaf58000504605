// Root-mean-square normalisation.
#pragma once

#include <cstdint>

namespace stoker::kernels {

/// One row: y[i] = x[i] * (1 / sqrt(mean(x^2) + eps)) * weight[i], each product rounded. x, y,
/// weight [n] f32; y may be x. Source: tools/reference/v41/arith.py, rms_norm.
void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* y);

}  // namespace stoker::kernels
