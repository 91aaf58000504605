#include "kernels/engram.h"

#include <cmath>

#include "tensor/arith.h"

namespace stoker::kernels {
namespace {

// lane_dot of (a * b) and c, the first product rounded.
float lane_dot_of_product(const float* a, const float* b, const float* c, int64_t n) {
  float lanes[arith::kLanes] = {};
  for (int64_t k = 0; k < n; ++k) {
    float& lane = lanes[k % arith::kLanes];
    lane = arith::fma(a[k] * b[k], c[k], lane);
  }
  return arith::add_lanes(lanes);
}

}  // namespace

void engram_gate(const float* keys, const float* value, const float* weight, int32_t hc,
                 int64_t hidden, float eps, float* streams) {
  const auto scale = static_cast<float>(std::pow(static_cast<double>(hidden), -0.5));
  for (int32_t k = 0; k < hc; ++k) {
    float* stream = streams + k * hidden;
    const float* key = keys + k * hidden;
    const float norm =
        arith::inverse_rms(stream, hidden, eps) * arith::inverse_rms(key, hidden, eps);
    const float dot = lane_dot_of_product(stream, weight + k * hidden, key, hidden) * norm * scale;
    const float magnitude = std::sqrt(std::isnan(dot) ? dot : std::fmax(std::abs(dot), 1e-6F));
    const float gate = arith::sigmoid(std::copysign(magnitude, dot));
    for (int64_t i = 0; i < hidden; ++i) stream[i] = arith::fma(gate, value[i], stream[i]);
  }
}

}  // namespace stoker::kernels
