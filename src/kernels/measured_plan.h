// A plan as it is measured and kept: for each thing that has a level, the level and the times of
// all. Its text is in docs/formats.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/plan.h"
#include "stoker/result.h"

namespace stoker::kernels {

/// What a plan chooses a level for: products of each packed format and class of rows, index scores,
/// and the rest.
struct PlanItem {
  std::string_view operation;  ///< "bf16", "f32", "fp8", "fp4", "index_scores", "rest"
  WeightFormat format = WeightFormat::kBf16Panel;  ///< of a product
  int64_t rows = 0;  ///< of a product: the most of its class, 64 for the last; else 0
};

inline constexpr size_t kNumPlanItems = 4 * kNumRowClasses + 2;

/// In the order of the text. item_idx < kNumPlanItems.
PlanItem plan_item(size_t item_idx);

/// A choice, and what it was made by.
struct MeasuredLevel {
  Isa chosen = Isa::kAvx2;
  /// Nanoseconds that the pool took for a piece of the work that tune.cc describes, by level; 0:
  /// not measured.
  std::array<int64_t, kNumLevels> ns{};

  bool operator==(const MeasuredLevel&) const = default;
};

/// A plain value.
using MeasuredPlan = std::array<MeasuredLevel, kNumPlanItems>;

/// The plan, nothing of it measured.
MeasuredPlan unmeasured(const KernelPlan& plan);

/// The plan of the choices. Error: kUnsupported for a level that this processor lacks.
Result<KernelPlan> kernel_plan_of(const MeasuredPlan& measured);

/// A longer text is none of ours.
inline constexpr size_t kMaxPlanTextBytes = 4096;

std::string plan_text(const MeasuredPlan& measured);

/// Reads what plan_text wrote, byte for byte. Errors: kCorruptData with the line, kUnsupported for
/// another version of the format or of what is chosen.
Result<MeasuredPlan> parse_plan(std::string_view text);

}  // namespace stoker::kernels
