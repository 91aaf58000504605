// Hyper-connections: `hc` residual streams, mixed into one before a sub-layer and written back to
// all after it.
#pragma once

#include <cstdint>

namespace stoker::kernels {

/// What a site's coefficients are made with.
struct MixParams {
  int32_t hc = 0;
  int32_t sinkhorn_iters = 0;
  float hc_eps = 0;
  const float* scale = nullptr;  ///< [3]
  const float* base = nullptr;   ///< [(2 + hc) * hc]
};

/// Coefficients of one token from its projection m [(2 + hc) * hc], already divided by the root
/// mean square of the streams: pre [hc], post [hc], comb [hc, hc] (source stream, destination
/// stream), doubly stochastic. hc <= 16. Source: tools/reference/v41/model.py, Model.mixes.
void mix_coefficients(const float* m, const MixParams& params, float* pre, float* post,
                      float* comb);

/// x [hidden] := sum over k of pre[k] * streams[k]; streams [hc, hidden].
/// Source: tools/reference/v41/model.py, Model.collapse.
void collapse(const float* streams, const float* pre, int32_t hc, int64_t hidden, float* x);

/// streams[k] := post[k] * y + sum over j of comb[j, k] * streams[j], in place; y [hidden], streams
/// [hc, hidden]. hc <= 16. Source: tools/reference/v41/model.py, Model.expand.
void expand(const float* y, const float* post, const float* comb, int32_t hc, int64_t hidden,
            float* streams);

}  // namespace stoker::kernels
