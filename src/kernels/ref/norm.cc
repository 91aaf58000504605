#include "kernels/norm.h"

#include "tensor/arith.h"

namespace stoker::kernels {

void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* y) {
  const float scale = arith::inverse_rms(x, n, eps);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

}  // namespace stoker::kernels
