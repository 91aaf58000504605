#include "api/plans.h"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "api/stored_weights.h"
#include "base/machine.h"
#include "base/try.h"
#include "kernels/tune.h"
#include "stoker/version.h"

namespace stoker {
namespace {

using snapshot::Digest;
using snapshot::Store;

constexpr const char* kPlansKind = "plans";

Result<KeptPlan> read_plan(const Store& store, const snapshot::Section& section) {
  TRY_ASSIGN(const std::string text, store.text_of(section, kernels::kMaxPlanTextBytes));
  TRY_ASSIGN(const kernels::MeasuredPlan measured, kernels::parse_plan(text));
  TRY_ASSIGN(const kernels::KernelPlan plan, kernels::kernel_plan_of(measured));
  return KeptPlan{section, measured, plan};
}

// In the place of what is there under the key, which the caller has locked.
Result<KeptPlan> keep(const Store& store, const Digest& key,
                      const kernels::MeasuredPlan& measured) {
  TRY_ASSIGN(const snapshot::Section section,
             store.put_text(kPlansKind, key, kernels::plan_text(measured)));
  TRY_ASSIGN(const kernels::KernelPlan plan, kernels::kernel_plan_of(measured));
  return KeptPlan{section, measured, plan};
}

Result<kernels::MeasuredPlan> measure(int num_threads, std::chrono::nanoseconds budget,
                                      const ProgressSink& progress) {
  TRY_ASSIGN(const kernels::KernelPlan start, kernels::default_plan());
  WorkerPool pool(num_threads);
  return kernels::measure_plan(pool, start, budget, kernels::tune_memory_bytes(),
                               [&progress](double fraction) {
                                 if (progress) progress({"measuring kernels", fraction});
                               });
}

// Measured by one of those that start at the same time.
Result<EnginePlan> measured_once(const Store& store, int num_threads,
                                 const EngineOptions& options) {
  const Digest key = plans_key(num_threads);
  TRY_ASSIGN(const snapshot::KeyLock held, store.lock(kPlansKind, key, wait_of(options.progress)));
  if (const auto kept = find_plan(store, num_threads)) return EnginePlan{kept->plan, "store"};
  TRY_ASSIGN(
      const kernels::MeasuredPlan measured,
      measure(num_threads, std::chrono::nanoseconds(std::llround(options.tune_seconds * 1e9)),
              options.progress));
  TRY_ASSIGN(const KeptPlan kept, keep(store, key, measured));
  return EnginePlan{kept.plan, "measured"};
}

Result<EnginePlan> stored_or_measured(int num_threads, const EngineOptions& options) {
  TRY_ASSIGN(const Store store, open_store(options.weights.store));
  const auto kept = find_plan(store, num_threads);
  if (kept) return EnginePlan{kept->plan, "store"};
  if (options.tune_seconds <= 0 || !store.writable()) return kept.error();
  return measured_once(store, num_threads, options);
}

}  // namespace

// Other builds have other kernels, and other machines other times.
Digest plans_key(int num_threads) {
  const HardwareFacts facts = hardware_facts();
  snapshot::Hasher hasher;
  hasher.add_text("plan 1").add_text(version()).add_text(facts.processor);
  for (const kernels::Isa isa : kernels::usable_levels()) hasher.add_text(kernels::isa_name(isa));
  hasher.add_number(facts.num_cores).add_number(facts.num_numa_nodes);
  for (const std::string& cache : facts.caches) hasher.add_text(cache);
  return hasher.add_number(facts.page_bytes).add_number(num_threads).digest();
}

Result<KeptPlan> find_plan(const Store& store, int num_threads) {
  const snapshot::Found found = store.find(kPlansKind, plans_key(num_threads));
  if (!found.section) return Error{ErrorCode::kNotFound, found.reason, ""};
  auto kept = read_plan(store, *found.section);
  if (!kept) return Error{ErrorCode::kNotFound, kept.error().message, ""};
  return kept;
}

Result<KeptPlan> make_plan(const Store& store, int num_threads, std::chrono::nanoseconds budget,
                           const ProgressSink& progress) {
  const Digest key = plans_key(num_threads);
  TRY_ASSIGN(const snapshot::KeyLock held, store.lock(kPlansKind, key, wait_of(progress)));
  TRY_ASSIGN(const kernels::MeasuredPlan measured, measure(num_threads, budget, progress));
  return keep(store, key, measured);
}

Result<EnginePlan> engine_plan(int num_threads, const EngineOptions& options) {
  TRY_ASSIGN(const kernels::KernelPlan builtin, kernels::default_plan());
  if (std::getenv("STOKER_ISA") != nullptr) return EnginePlan{builtin, "environment"};
  if (!options.tune || !options.weights.pack) return EnginePlan{builtin, "builtin"};
  auto found = stored_or_measured(num_threads, options);
  if (found) return found;
  if (options.log)
    options.log(LogLevel::kInfo, "event=builtin_plan reason=\"" + found.error().message + "\"");
  return EnginePlan{builtin, "builtin"};
}

}  // namespace stoker
