// A long run of an engine while requests come and go, and what it takes by then: for a test and a
// benchmark that both say it takes no more at the end than soon after the beginning.
#pragma once

#include <array>
#include <cstdint>

#include "model/model.h"
#include "stoker/result.h"

namespace stoker::testing {

/// A tenth of the steps.
struct Tenth {
  // At its end, when nothing runs and no prefix is cached.
  int64_t resident_bytes = 0;  ///< in memory, mapped files not counted
  int64_t heap_bytes = 0;      ///< allocated
  double step_s = 0;           ///< median
  int64_t num_finished = 0;    ///< requests that ended
};

/// num_steps steps of an engine of its own, of which nearly all decode: always eight requests of
/// many lengths, some with a common prefix, some cancelled on the way; each that ends makes place
/// for another. The same for the same model. Errors: those of Stepper::create.
Result<std::array<Tenth, 10>> run_steadily(const Model& model, int num_threads, int64_t num_steps);

}  // namespace stoker::testing
