// Rotary positions on the last channels of a vector, in adjacent (even, odd) pairs.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker::kernels {

/// YaRN: frequencies are blended with themselves / factor, between two correction dimensions.
struct Yarn {
  double factor = 0;
  double beta_fast = 0;
  double beta_slow = 0;
  double original_max_position_embeddings = 0;
};

/// One angular frequency per pair: [dim / 2] f32, each step rounded to float32. yarn may be null.
/// Source: tools/reference/v41/model.py, inverse_frequencies.
std::vector<float> inverse_frequencies(int32_t dim, double base, const Yarn* yarn);

/// Cosine and sine of float32(position) * frequency, taken in double and rounded once: out [2 * n]
/// is cos, sin, cos, sin, ...
void rotation(int64_t position, const std::vector<float>& frequencies, float* out);

/// Rotates the last 2 * pairs channels of x [dim] in place by `rotation` [2 * pairs]; `inverse`
/// turns back. Source: tools/reference/v41/model.py, rotate.
void rotate(float* x, int64_t dim, const float* rotation, int64_t pairs, bool inverse);

}  // namespace stoker::kernels
