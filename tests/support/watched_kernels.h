// Kernels that note what they do and else are those of the library: how often weights are read, how
// much is multiplied, and how long index keys are scored.
#pragma once

#include <cstdint>
#include <map>

#include "kernels/plan.h"

namespace stoker::testing {

/// The default plan with watched kernels in it.
kernels::KernelPlan watched_plan();

/// Reads of a packed matrix, by the first byte of each of its panels (or groups of rows, with
/// kF32Parts).
using Reads = std::map<const uint8_t*, int64_t>;

/// What was noted since the last call, or nothing until the first watch_reads(true).
Reads take_reads();
void watch_reads(bool enabled);

/// Seconds that threads spent scoring index keys since the last call, over all threads.
double take_index_seconds();
/// The same of looking for the best scores.
double take_choice_seconds();

/// What kernels read of weights and multiplied since the last call: products, attention and index
/// scores.
struct Work {
  double weight_bytes = 0;
  double flops = 0;
  double index_flops = 0;  ///< of flops
};
Work take_work();

}  // namespace stoker::testing
