#include "kernels/moe.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/arith.h"

namespace stoker::kernels {
namespace {

// logits -> scores, in place.
void score(float* values, int32_t n, Scoring scoring) {
  switch (scoring) {
    case Scoring::kSqrtSoftplus:
      for (int32_t e = 0; e < n; ++e) values[e] = arith::sqrt_softplus(values[e]);
      return;
    case Scoring::kSigmoid:
      for (int32_t e = 0; e < n; ++e) values[e] = arith::sigmoid(values[e]);
      return;
    case Scoring::kSoftmax: {
      const float top = *std::max_element(values, values + n);
      float sum = 0;
      for (int32_t e = 0; e < n; ++e) {
        values[e] = arith::exp(values[e] - top);
        sum = e == 0 ? values[e] : sum + values[e];
      }
      for (int32_t e = 0; e < n; ++e) values[e] = values[e] / sum;
      return;
    }
  }
}

}  // namespace

void route(float* logits, const RouteParams& params, int32_t* scratch, int32_t* ids,
           float* weights) {
  const int32_t n = params.num_experts;
  for (int32_t e = 0; e < n; ++e) logits[e] = logits[e] / params.gate_temp;
  score(logits, n, params.scoring);
  std::iota(scratch, scratch + n, 0);
  const auto better = [&](int32_t a, int32_t b) {  // NaN last, so that the order stays one
    const float x = logits[a] + params.bias[a];
    const float y = logits[b] + params.bias[b];
    if (std::isnan(x) || std::isnan(y))
      return std::isnan(x) == std::isnan(y) ? a < b : std::isnan(y);
    return x != y ? x > y : a < b;
  };
  std::partial_sort(scratch, scratch + params.top_k, scratch + n, better);
  std::sort(scratch, scratch + params.top_k);
  float sum = 0;
  for (int32_t i = 0; i < params.top_k; ++i) {
    ids[i] = scratch[i];
    weights[i] = logits[ids[i]];
    sum = i == 0 ? weights[i] : sum + weights[i];
  }
  const bool normalise = params.norm_topk_prob && params.top_k > 1;
  for (int32_t i = 0; i < params.top_k; ++i) {
    if (normalise) weights[i] = weights[i] / (sum + 1e-20F);
    weights[i] = weights[i] * params.routed_scaling_factor;
  }
}

void swiglu(const float* gate, const float* up, int64_t n, float limit, const float* scale,
            float* hidden) {
  for (int64_t i = 0; i < n; ++i) {
    float g = gate[i];
    float u = up[i];
    if (limit > 0) {
      g = std::isnan(g) ? g : std::min(g, limit);
      u = std::isnan(u) ? u : std::min(std::max(u, -limit), limit);
    }
    const float h = g / (1.0F + arith::exp(-g)) * u;
    hidden[i] = scale != nullptr ? h * *scale : h;
  }
}

}  // namespace stoker::kernels
