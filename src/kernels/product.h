// Products of activation rows with a stored matrix. Which order each output is summed in depends on
// the format alone, never on how many rows there are or who computes them.
#pragma once

#include <cstdint>

#include "base/worker_pool.h"
#include "tensor/weight.h"

namespace stoker::kernels {

/// Rows of float32 that somebody else owns: row r starts at data + r * stride.
struct Rows {
  const float* data = nullptr;
  int64_t count = 0;
  int64_t stride = 0;
};

/// y[r, n] = sum over k of x[r, k] * w[n, k]. x.count rows of w.cols; y rows of w.rows, y_stride
/// apart. FP8 and FP4 weights: x is rounded to bf16, columns are taken in pairs, of each the second
/// first; the pairs are (0,1)(2,3).. or, for FP4, (0,4)(1,5)(2,6)(3,7) of every 8. bf16 and f32
/// weights: x as it is, columns ascending. One fma a column. w.cols is even, and a multiple of 8
/// with FP4. Pieces: 16 outputs of all rows. Source: tools/reference/v41/arith.py, chain and
/// chain_f32.
void product(WorkerPool& pool, Rows x, const Weight& w, float* y, int64_t y_stride);

/// The same for an f32 matrix in 16 equal runs of columns, whose partial sums are added in order.
/// w.cols is a multiple of 16. Source: tools/reference/v41/arith.py, chain_f32_parts.
void product_parts(WorkerPool& pool, Rows x, const Weight& w, float* y, int64_t y_stride);

}  // namespace stoker::kernels
