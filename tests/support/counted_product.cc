#include "support/counted_product.h"

#include <utility>

#include "kernels/product.h"

namespace stoker::testing {
namespace {

ProductCounts counts;
bool is_counting = false;

void note(const Weight& w) {
  if (is_counting) ++counts[w.data];
}

}  // namespace

ProductCounts take_product_counts() {
  return std::exchange(counts, {});
}

void count_products(bool enabled) {
  is_counting = enabled;
}

}  // namespace stoker::testing

namespace stoker::kernels {

// kernels/ref/product.cc under other names: tests/support/CMakeLists.txt.
void plain_product(WorkerPool& pool, Rows x, const Weight& w, float* y, int64_t y_stride);
void plain_product_parts(WorkerPool& pool, Rows x, const Weight& w, float* y, int64_t y_stride);

void product(WorkerPool& pool, Rows x, const Weight& w, float* y, int64_t y_stride) {
  testing::note(w);
  plain_product(pool, x, w, y, y_stride);
}

void product_parts(WorkerPool& pool, Rows x, const Weight& w, float* y, int64_t y_stride) {
  testing::note(w);
  plain_product_parts(pool, x, w, y, y_stride);
}

}  // namespace stoker::kernels
