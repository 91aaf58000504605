// Products of many rows with many matrices in one go, on the pool: activations are arranged once
// for each way that the matrices need them, then all panels of all matrices are pieces.
#pragma once

#include <cstdint>
#include <span>

#include "base/arena.h"
#include "base/worker_pool.h"
#include "kernels/plan.h"
#include "kernels/product.h"
#include "tensor/weight.h"

namespace stoker::kernels {

/// What a product computes with. The arena is the calling thread's.
struct Workbench {
  WorkerPool& pool;
  Arena& arena;
  const KernelPlan& plan;
};

/// y[i, n] = sum over k of x[row i, k] * w[n, k], as product() has it; w packed or not. Nothing
/// that is written may be read or written by another product of the same call.
struct Product {
  Rows x;
  const int32_t* index = nullptr;  ///< [count] rows of x that are used; null: all of them
  int64_t count = 0;               ///< rows of y; x.count without an index
  const Weight* w = nullptr;
  float* y = nullptr;  ///< [count, w->rows], y_stride apart
  int64_t y_stride = 0;
};

/// All of them. Products that follow each other and read the same rows of the same x share what is
/// arranged of it.
void products(const Workbench& bench, std::span<const Product> all);

/// x.count rows with one matrix: y [x.count, w.rows], y_stride apart.
void product_of(const Workbench& bench, Rows x, const Weight& w, float* y, int64_t y_stride);

/// product_parts() for a matrix that is packed (kF32Parts) or not.
void parts_product_of(const Workbench& bench, Rows x, const Weight& w, float* y, int64_t y_stride);

}  // namespace stoker::kernels
