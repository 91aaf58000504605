#include "kernels/plan.h"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace stoker::kernels {
namespace {

std::string names_of(const std::vector<Isa>& levels) {
  std::string names;
  for (const Isa isa : levels) {
    if (!names.empty()) names += ", ";
    names += isa_name(isa);
  }
  return names;
}

// Where VDPBF16PS is at most as fast as two FMAs, float32 is: on processors of Intel.
bool multiplies_bf16_slowly() {
  return __builtin_cpu_is("intel") != 0;
}

Result<KernelPlan> plan_of_name(const std::string& name, const std::vector<Isa>& usable) {
  const std::optional<Isa> isa = isa_of(name);
  if (!isa) {
    return Error{ErrorCode::kInvalidArgument,
                 "STOKER_ISA: expected avx2, avx512 or avx512bf16, found '" + name + "'", ""};
  }
  if (std::find(usable.begin(), usable.end(), *isa) == usable.end()) {
    return Error{ErrorCode::kUnsupported,
                 "STOKER_ISA: expected a level of this processor (" + names_of(usable) +
                     "), found '" + name + "'",
                 ""};
  }
  return plan_of(*isa);
}

}  // namespace

KernelPlan plan_of(Isa isa) {
  const Kernels& kernels = kernels_of(isa);
  KernelPlan plan;
  for (auto& classes : plan.products) classes.fill(&kernels);
  plan.index_scores = &kernels;
  plan.rest = &kernels;
  return plan;
}

Result<KernelPlan> default_plan() {
  const std::vector<Isa> usable = usable_levels();
  if (usable.empty()) {
    return Error{ErrorCode::kUnsupported,
                 "this processor: expected AVX2, FMA and F16C (Intel Haswell, AMD Zen or later)",
                 ""};
  }
  if (const char* name = std::getenv("STOKER_ISA"); name != nullptr)
    return plan_of_name(name, usable);
  Isa best = usable.back();
  if (best == Isa::kAvx512Bf16 && multiplies_bf16_slowly()) best = Isa::kAvx512;
  return plan_of(best);
}

}  // namespace stoker::kernels
