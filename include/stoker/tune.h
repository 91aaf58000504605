// Plans: which of the kernels that this processor can run computes what, as measured on this
// machine and kept in the store. A plan changes how long a step takes, never an answer
// (docs/performance.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// One choice of a plan.
struct PlanChoice {
  struct Level {
    std::string name;  ///< "avx2", "avx512", "avx512bf16"
    int64_t ns = 0;    ///< that all threads together took for a piece of the work
  };
  std::string operation;  ///< format of a product's weights; "index_scores"; "rest": attention
  int64_t rows = 0;       ///< of a product: at most so many, more than in the choice before; else 0
  std::string level;      ///< that computes it
  std::vector<Level> measured;  ///< all levels of this processor; empty: built in
};

/// What is kept for this machine and a number of threads.
struct TunedPlan {
  int num_threads = 1;
  std::string path;  ///< of the object in the store
  std::vector<PlanChoice> choices;
};

struct TuneOptions {
  std::string store = {};      ///< a folder; empty: $STOKER_STORE, else stoker/ in the user's cache
  int num_threads = 0;         ///< as EngineOptions
  double seconds = 5;          ///< that measuring takes at most; what then lacks is built in
  ProgressSink progress = {};  ///< may be null
};

/// Measures and keeps the plan that engines with so many threads use from then on. Best with
/// nothing else running. Errors: kInvalidArgument for options, and while STOKER_ISA is set, which
/// leaves nothing to choose; kUnsupported as Engine::open; of the store kNotFound, kIo,
/// kCorruptData, kResourceExhausted.
Result<TunedPlan> tune(const TuneOptions& options);

/// What is kept; `seconds` and `progress` are not used. Errors: kNotFound where nothing is, or
/// nothing that fits, with the reason; kInvalidArgument, and those of opening the store.
Result<TunedPlan> kept_plan(const TuneOptions& options);

}  // namespace stoker
