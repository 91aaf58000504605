// Plans of this machine in the store: found there, or measured and put there.
#pragma once

#include <chrono>
#include <string>

#include "kernels/measured_plan.h"
#include "snapshot/store.h"
#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// A plan as the store has it.
struct KeptPlan {
  snapshot::Section section;
  kernels::MeasuredPlan measured;
  kernels::KernelPlan plan;
};

/// The key of the plan for this build, this machine and so many threads.
snapshot::Digest plans_key(int num_threads);

/// What is kept for this build, this machine and so many threads. Error: kNotFound, with the reason
/// why there is nothing that can be used.
Result<KeptPlan> find_plan(const snapshot::Store& store, int num_threads);

/// Measures with so many threads and keeps what it found, in the place of what was kept. Errors:
/// kUnsupported without a level, kIo, kResourceExhausted.
Result<KeptPlan> make_plan(const snapshot::Store& store, int num_threads,
                           std::chrono::nanoseconds budget, const ProgressSink& progress);

/// The plan that an engine computes with, and where it is from.
struct EnginePlan {
  kernels::KernelPlan plan;
  std::string source;  ///< "environment", "builtin", "store", "measured"
};

/// STOKER_ISA's where that is set. Else what the store of options.weights keeps, measured first
/// where it keeps nothing and options.tune_seconds allows it; the built-in plan without
/// options.tune or a store, and for whatever the store cannot do, which is logged. Errors: those of
/// default_plan().
Result<EnginePlan> engine_plan(int num_threads, const EngineOptions& options);

}  // namespace stoker
