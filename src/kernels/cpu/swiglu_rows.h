// What an expert does between its products, for the levels.
#pragma once

#include <cstdint>

#include "kernels/cpu/attend_rows.h"

namespace stoker::kernels {

template <class L>
[[gnu::always_inline]] inline typename L::Float swiglu_of(typename L::Float gate,
                                                          typename L::Float up, float limit,
                                                          typename L::Float scale, bool is_scaled) {
  using Float = typename L::Float;
  const auto constant = [](float value) { return L::broadcast(&value); };
  if (limit > 0) {  // NaN stays NaN
    gate = L::min(constant(limit), gate);
    up = L::min(constant(limit), L::max(constant(-limit), up));
  }
  const Float below = L::add(constant(1.0F), exp_of<L>(L::sub(L::zero(), gate)));
  const Float hidden = L::mul(L::div(gate, below), up);
  return is_scaled ? L::mul(hidden, scale) : hidden;
}

/// kernels/moe.h, swiglu.
template <class L>
void swiglu_row(const float* gate, const float* up, int64_t n, float limit, const float* scale,
                float* hidden) {
  using Float = typename L::Float;
  const Float factor = scale != nullptr ? L::broadcast(scale) : L::zero();
  const bool is_scaled = scale != nullptr;
  int64_t i = 0;
  for (; i + L::kLanes <= n; i += L::kLanes) {
    L::store(hidden + i,
             swiglu_of<L>(L::load(gate + i), L::load(up + i), limit, factor, is_scaled));
  }
  if (i == n) return;
  float rest[2][L::kLanes] = {};
  for (int64_t k = 0; k < n - i; ++k) {
    rest[0][k] = gate[i + k];
    rest[1][k] = up[i + k];
  }
  L::store(rest[0], swiglu_of<L>(L::load(rest[0]), L::load(rest[1]), limit, factor, is_scaled));
  for (int64_t k = 0; k < n - i; ++k) hidden[i + k] = rest[0][k];
}

}  // namespace stoker::kernels
