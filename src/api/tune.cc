#include "stoker/tune.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "api/loaded_model.h"
#include "api/plans.h"
#include "api/stored_weights.h"
#include "base/try.h"

namespace stoker {
namespace {

constexpr double kMostSeconds = 3600;

std::vector<PlanChoice> choices_of(const kernels::MeasuredPlan& measured) {
  std::vector<PlanChoice> choices;
  for (size_t i = 0; i < measured.size(); ++i) {
    const kernels::PlanItem item = kernels::plan_item(i);
    PlanChoice choice{std::string(item.operation),
                      item.rows,
                      std::string(kernels::isa_name(measured[i].chosen)),
                      {}};
    for (size_t level = 0; level < kernels::kNumLevels; ++level) {
      if (measured[i].ns[level] == 0) continue;
      choice.measured.push_back({std::string(kernels::isa_name(static_cast<kernels::Isa>(level))),
                                 measured[i].ns[level]});
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

TunedPlan told(const snapshot::Store& store, int num_threads, const KeptPlan& kept) {
  return {num_threads, store.dir() + "/objects/" + kept.section.object(),
          choices_of(kept.measured)};
}

}  // namespace

Result<TunedPlan> tune(const TuneOptions& options) {
  TRY_ASSIGN(const int num_threads, threads_to_use(options.num_threads));
  if (!(options.seconds > 0 && options.seconds <= kMostSeconds)) {
    return Error{
        ErrorCode::kInvalidArgument,
        "seconds: expected more than 0 and at most 3600, found " + std::to_string(options.seconds),
        "seconds"};
  }
  if (std::getenv("STOKER_ISA") != nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 "STOKER_ISA: expected it not to be set, for it puts everything on one level", ""};
  }
  TRY_ASSIGN(const snapshot::Store store, open_store(options.store));
  const std::chrono::nanoseconds budget(std::llround(options.seconds * 1e9));
  TRY_ASSIGN(const KeptPlan kept, make_plan(store, num_threads, budget, options.progress));
  return told(store, num_threads, kept);
}

Result<TunedPlan> kept_plan(const TuneOptions& options) {
  TRY_ASSIGN(const int num_threads, threads_to_use(options.num_threads));
  TRY_ASSIGN(const snapshot::Store store, open_store(options.store));
  const auto kept = find_plan(store, num_threads);
  if (!kept) {
    return Error{ErrorCode::kNotFound,
                 "no plan for " + std::to_string(num_threads) + " threads of this machine in " +
                     store.dir() + " (" + kept.error().message + "); `stoker tune` makes one",
                 ""};
  }
  return told(store, num_threads, *kept);
}

}  // namespace stoker
