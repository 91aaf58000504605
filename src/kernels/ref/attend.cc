#include "kernels/attend.h"

#include <algorithm>
#include <cmath>

#include "kernels/chain.h"
#include "tensor/arith.h"
#include "tensor/formats.h"

namespace stoker::kernels {
void attend(const float* q, const float* keys, int64_t n, const float* sink, int32_t heads,
            int64_t dim, std::vector<float>& scratch, float* out) {
  const auto scale = static_cast<float>(std::pow(static_cast<double>(dim), -0.5));
  scratch.resize(static_cast<size_t>(n));
  float* scores = scratch.data();
  for (int32_t head = 0; head < heads; ++head) {
    for (int64_t row = 0; row < n; ++row)
      scores[row] = chain_dot(q + head * dim, keys + row * dim, dim, kPairBlock);
    const float top = std::max(*std::max_element(scores, scores + n) * scale, sink[head]);
    float total = 0;
    for (int64_t row = 0; row < n; ++row) {
      const float share = arith::exp(arith::fma(scores[row], scale, -top));
      total = row == 0 ? share : total + share;
      scores[row] = bf16_round(share);
    }
    total = total + arith::exp(sink[head] - top);
    mix_rows(scores, keys, n, dim, out + head * dim);
    const float inverse = 1.0F / total;
    for (int64_t i = 0; i < dim; ++i) out[head * dim + i] = out[head * dim + i] * inverse;
  }
}

}  // namespace stoker::kernels
