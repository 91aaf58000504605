// Sums of several rows against a panel of kPanel columns side by side, in the orders of
// tools/reference/v41/arith.py. Each row's and each output's sum is its own chain; that several run
// side by side hides the wait for an addition and changes no bit.
#pragma once

#include <cstdint>

#include "tensor/arith.h"

namespace stoker::kernels {

inline constexpr int64_t kPanel = 16;    ///< outputs of a panel
inline constexpr int64_t kTogether = 4;  ///< rows that are summed side by side

/// Rows of activations, and their sums with the outputs of a panel.
using RowSet = const float* const[kTogether];
using Sums = float[kTogether][kPanel];

/// acc[r][i] = fma(x[r][k], panel[k, i], acc[r][i]). panel [columns, kPanel].
inline void add_column(RowSet x, int64_t k, const float* panel, Sums acc) {
  for (int64_t r = 0; r < kTogether; ++r) {
    for (int64_t i = 0; i < kPanel; ++i)
      acc[r][i] = arith::fma(x[r][k], panel[k * kPanel + i], acc[r][i]);
  }
}

/// Columns ascending, in [begin, end).
inline void sum_plain(RowSet x, const float* panel, int64_t begin, int64_t end, Sums acc) {
  for (int64_t k = begin; k < end; ++k) add_column(x, k, panel, acc);
}

/// Columns by pairs, the second of each pair first: (i, i + block / 2) of every `block` columns.
inline void sum_pairs(RowSet x, const float* panel, int64_t cols, int64_t block, Sums acc) {
  const int64_t half = block / 2;
  for (int64_t first = 0; first < cols; first += block) {
    for (int64_t low = first; low < first + half; ++low) {
      add_column(x, low + half, panel, acc);
      add_column(x, low, panel, acc);
    }
  }
}

}  // namespace stoker::kernels
