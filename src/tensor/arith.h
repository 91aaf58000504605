// The engine's float32 arithmetic: which operations, in which order, each rounded once. Every
// kernel is made of these or equals them bit for bit. Threads that compute flush denormals
// (base/worker_pool.h, FlushDenormals).
//
// Source of all functions: tools/reference/v41/arith.py; docs/numerics.md tells the rules in words.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace stoker::arith {

inline constexpr int kLanes = 16;
inline constexpr float kNegInf = -std::numeric_limits<float>::infinity();

/// a * b + c, rounded once.
inline float fma(float a, float b, float c) {
  return std::fma(a, b, c);
}

/// 2^n as a float, n in [-126, 127].
inline float pow2(int32_t n) {
  return std::bit_cast<float>((n + 127) << 23);
}

/// e^x; 0 below -87, at most e^88. A NaN stays one.
inline float exp(float x) {
  if (std::isnan(x)) return x;
  if (x < -87.0F) return 0.0F;
  const float y = std::min(x, 88.0F);
  const float n = std::nearbyint(y * 1.44269504F);
  float r = fma(-n, 0.693145752F, y);
  r = fma(-n, 1.42860677e-6F, r);
  float p = 0.0013941213255748153F;
  p = fma(p, r, 0.008375209756195545F);
  p = fma(p, r, 0.04166635125875473F);
  p = fma(p, r, 0.16666413843631744F);
  p = fma(p, r, 0.5F);
  p = fma(p, r, 1.0F);
  p = fma(p, r, 1.0F);
  return p * pow2(static_cast<int32_t>(n));  // exact: the result is normal
}

inline float sigmoid(float x) {
  return 1.0F / (1.0F + exp(-x));
}

/// Natural logarithm of a positive normal number. Anything else gives some number or NaN.
inline float log(float x) {
  int32_t bits = std::bit_cast<int32_t>(x);
  // x = m * 2^e with m in [1/2, 1), then moved to [sqrt(1/2), sqrt(2)).
  int32_t e = ((bits >> 23) & 0xFF) - 126;
  float m = std::bit_cast<float>((bits & 0x007FFFFF) | 0x3F000000);
  if (m < 0.70710678F) {
    m = m + m;
    e -= 1;
  }
  const float exponent = static_cast<float>(e);
  const float t = m - 1.0F;
  float p = 7.0376836292e-2F;
  p = fma(p, t, -1.1514610310e-1F);
  p = fma(p, t, 1.1676998740e-1F);
  p = fma(p, t, -1.2420140846e-1F);
  p = fma(p, t, 1.4249322787e-1F);
  p = fma(p, t, -1.6668057665e-1F);
  p = fma(p, t, 2.0000714765e-1F);
  p = fma(p, t, -2.4999993993e-1F);
  p = fma(p, t, 3.3333331174e-1F);
  const float z = t * t;
  float y = fma(exponent, -2.12194440e-4F, (t * z) * p);
  y = fma(-0.5F, z, y);
  return fma(exponent, 0.693359375F, t + y);
}

/// sqrt(softplus(x)), in double and rounded once.
inline float sqrt_softplus(float x) {
  const auto wide = static_cast<double>(x);
  return static_cast<float>(std::sqrt(std::max(wide, 0.0) + std::log1p(std::exp(-std::abs(wide)))));
}

/// Adds 16 lanes: lane i += lane i + 8, then 4, 2, 1. `lanes` [16] is overwritten.
inline float add_lanes(float* lanes) {
  for (int half = kLanes / 2; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
  }
  return lanes[0];
}

/// Sum of a[k] * b[k] over n columns: lane k mod 16 takes column k, ascending, by fma; then the
/// lanes are added.
inline float lane_dot(const float* a, const float* b, int64_t n) {
  float lanes[kLanes] = {};
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] = fma(a[k + i], b[k + i], lanes[i]);
  }
  for (int i = 0; k + i < n; ++i) lanes[i] = fma(a[k + i], b[k + i], lanes[i]);
  return add_lanes(lanes);
}

/// 1 / sqrt(mean of squares + eps) of x [n].
inline float inverse_rms(const float* x, int64_t n, float eps) {
  return 1.0F / std::sqrt(lane_dot(x, x, n) / static_cast<float>(n) + eps);
}

}  // namespace stoker::arith
