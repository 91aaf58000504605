// Counts how often weights are read: a program that links stoker_counted_product has these products
// in the place of the library's. They note the matrix and compute plainly.
#pragma once

#include <cstdint>
#include <map>

namespace stoker::testing {

/// Calls by the first byte of the matrix. Not the thread's that computes but the caller's: one at a
/// time.
using ProductCounts = std::map<const uint8_t*, int64_t>;

/// What was counted since the last call, or nothing until the first one.
ProductCounts take_product_counts();
/// Nothing is counted until this is said.
void count_products(bool enabled);

}  // namespace stoker::testing
