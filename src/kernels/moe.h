// The mixture of experts: which experts a token goes to, and what an expert does between its
// products.
#pragma once

#include <cstdint>

namespace stoker::kernels {

/// How router logits become scores.
enum class Scoring { kSqrtSoftplus, kSigmoid, kSoftmax };

struct RouteParams {
  int32_t num_experts = 0;
  int32_t top_k = 0;
  Scoring scoring = Scoring::kSqrtSoftplus;
  float gate_temp = 1;
  bool norm_topk_prob = true;
  float routed_scaling_factor = 1;
  const float* bias = nullptr;  ///< [num_experts]; moves the choice, not the weights
};

/// One token: logits [num_experts] (overwritten) -> ids [top_k] ascending, weights [top_k].
/// scratch [num_experts] is overwritten. Source: tools/reference/v41/model.py, Model.route.
void route(float* logits, const RouteParams& params, int32_t* scratch, int32_t* ids,
           float* weights);

/// hidden[i] := silu(min(gate[i], limit)) * clamp(up[i], -limit, limit) [* scale], n values; limit
/// 0: no clamping; hidden may be gate. scale null: none. Source: tools/reference/v41/model.py,
/// Model.expert.
void swiglu(const float* gate, const float* up, int64_t n, float limit, const float* scale,
            float* hidden);

}  // namespace stoker::kernels
