#include "kernels/compress.h"

#include <algorithm>

#include "tensor/arith.h"

namespace stoker::kernels {

void pool_group(const float* kv, const float* gate, int32_t ratio, int64_t dim, float* out) {
  for (int64_t i = 0; i < dim; ++i) {
    float top = gate[i];
    for (int32_t t = 1; t < ratio; ++t) top = std::max(top, gate[t * dim + i]);
    float sum = 0;
    float total = 0;
    for (int32_t t = 0; t < ratio; ++t) {
      const float share = arith::exp(gate[t * dim + i] - top);
      sum = t == 0 ? share * kv[i] : arith::fma(share, kv[t * dim + i], sum);
      total = t == 0 ? share : total + share;
    }
    out[i] = sum / total;
  }
}

}  // namespace stoker::kernels
