// Sums in the order of FP8 and FP4 weights, for places where both sides are activations.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/arith.h"

namespace stoker::kernels {

/// Columns of which the pairs of a chain are made: (0,1) of every 2, or (i, i + 4) of every 8 where
/// one side is FP4.
inline constexpr int64_t kPairBlock = 2;
inline constexpr int64_t kFp4Block = 8;

/// Sum of a[k] * b[k] over n columns, n a multiple of `block`; both sides exact in bf16. Of each
/// pair the second column is added first, each by one fma. Source: tools/reference/v41/arith.py,
/// chain.
inline float chain_dot(const float* a, const float* b, int64_t n, int64_t block) {
  const int64_t half = block / 2;
  float acc = 0;
  for (int64_t first = 0; first < n; first += block) {
    for (int64_t low = first; low < first + half; ++low) {
      acc = arith::fma(a[low + half], b[low + half], acc);
      acc = arith::fma(a[low], b[low], acc);
    }
  }
  return acc;
}

/// out [dim] := sum over n rows of shares[row] * rows[row, dim], by pairs of rows, the second of
/// each pair first; an odd last row is paired with zero. Both sides exact in bf16. Source:
/// tools/reference/v41/arith.py, mix_rows.
inline void mix_rows(const float* shares, const float* rows, int64_t n, int64_t dim, float* out) {
  std::fill_n(out, dim, 0.0F);
  for (int64_t row = 0; row < n; row += 2) {
    if (row + 1 < n) {
      for (int64_t i = 0; i < dim; ++i)
        out[i] = arith::fma(shares[row + 1], rows[(row + 1) * dim + i], out[i]);
    }
    for (int64_t i = 0; i < dim; ++i) out[i] = arith::fma(shares[row], rows[row * dim + i], out[i]);
  }
}

}  // namespace stoker::kernels
