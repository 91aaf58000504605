// Kernels that note what they do and else are those of the library: how often weights are read, and
// how long index keys are scored.
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

}  // namespace stoker::testing
