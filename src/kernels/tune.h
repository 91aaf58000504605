// Measures on this machine which level computes what best.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>

#include "base/worker_pool.h"
#include "kernels/measured_plan.h"

namespace stoker::kernels {

/// Told how much is done, 0 to 1, from the calling thread. May be null.
using TuneProgress = std::function<void(double fraction)>;

/// Times each usable level on each item of a plan, with all threads of the pool and random weights
/// of at most `memory_bytes`, by turns. An item that `budget` ends before it was measured keeps the
/// level of `start`; so does one where no level is clearly faster. Takes little longer than the
/// budget. Results of what runs elsewhere on the machine meanwhile are in it.
MeasuredPlan measure_plan(WorkerPool& pool, const KernelPlan& start,
                          std::chrono::nanoseconds budget, int64_t memory_bytes,
                          const TuneProgress& progress = {});

/// Bytes of weights to measure on: far beyond the caches where there is memory for it.
int64_t tune_memory_bytes();

/// The level to choose by those times: the fastest, but `otherwise` unless it takes clearly longer.
/// Levels that were not measured are not chosen.
Isa choose_level(const std::array<int64_t, kNumLevels>& ns, Isa otherwise);

}  // namespace stoker::kernels
