#include "kernels/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace stoker::kernels {
namespace {

// The dimension whose channel turns `rotations` times over the original context.
double correction(double rotations, int32_t dim, double base, const Yarn& yarn) {
  return dim *
         std::log(yarn.original_max_position_embeddings / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(base));
}

}  // namespace

std::vector<float> inverse_frequencies(int32_t dim, double base, const Yarn* yarn) {
  std::vector<float> frequencies(static_cast<size_t>(dim / 2));
  float low = 0;
  float width = 1;
  if (yarn != nullptr) {
    low = static_cast<float>(
        std::max(std::floor(correction(yarn->beta_fast, dim, base, *yarn)), 0.0));
    const auto high = static_cast<float>(
        std::min(std::ceil(correction(yarn->beta_slow, dim, base, *yarn)), dim - 1.0));
    width =
        static_cast<float>(std::max(static_cast<double>(high) - static_cast<double>(low), 1e-3));
  }
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const auto period = static_cast<float>(std::pow(base, static_cast<double>(2 * i) / dim));
    const float f = 1.0F / period;
    frequencies[i] = f;
    if (yarn == nullptr) continue;
    const float ramp = std::clamp((static_cast<float>(i) - low) / width, 0.0F, 1.0F);
    const float keep = 1.0F - ramp;
    const float slow = 1.0F / (static_cast<float>(yarn->factor) * period);
    frequencies[i] = slow * (1.0F - keep) + f * keep;
  }
  return frequencies;
}

void rotation(int64_t position, const std::vector<float>& frequencies, float* out) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float angle = static_cast<float>(position) * frequencies[i];
    out[2 * i] = static_cast<float>(std::cos(static_cast<double>(angle)));
    out[2 * i + 1] = static_cast<float>(std::sin(static_cast<double>(angle)));
  }
}

void rotate(float* x, int64_t dim, const float* rotation, int64_t pairs, bool inverse) {
  float* tail = x + dim - 2 * pairs;
  for (int64_t i = 0; i < pairs; ++i) {
    const float cosine = rotation[2 * i];
    const float sine = inverse ? -rotation[2 * i + 1] : rotation[2 * i + 1];
    const float even = tail[2 * i];
    const float odd = tail[2 * i + 1];
    tail[2 * i] = even * cosine - odd * sine;
    tail[2 * i + 1] = even * sine + odd * cosine;
  }
}

}  // namespace stoker::kernels
