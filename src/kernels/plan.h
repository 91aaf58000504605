// Which level computes what. A plan changes how long a step takes, never its bits.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cpu/levels.h"
#include "stoker/result.h"
#include "tensor/weight.h"

namespace stoker::kernels {

/// Numbers of rows that are planned apart: 1, 2, 3..4, 5..8, 9..16, 17..32, more.
inline constexpr int64_t kNumRowClasses = 7;
constexpr int64_t row_class(int64_t rows) {
  int64_t at = 0;
  for (int64_t most = 1; rows > most && at + 1 < kNumRowClasses; most *= 2) ++at;
  return at;
}

/// A value. Borrows the tables of the levels, which live for ever.
struct KernelPlan {
  /// Packed formats in their order, from kBf16Panel on.
  std::array<std::array<const Kernels*, kNumRowClasses>, 4> products{};
  const Kernels* index_scores = nullptr;
  const Kernels* rest = nullptr;  ///< parts, attention

  const Kernels& product(WeightFormat format, int64_t rows) const {
    const auto at = static_cast<size_t>(format) - static_cast<size_t>(WeightFormat::kBf16Panel);
    return *products[at][static_cast<size_t>(row_class(rows))];
  }
};

/// Everything on one level.
KernelPlan plan_of(Isa isa);

/// The plan of this processor without measurements. STOKER_ISA in the environment puts everything
/// on its level. Errors: kUnsupported without AVX2, FMA and F16C, or for a level that this
/// processor lacks; kInvalidArgument for a name that is none.
Result<KernelPlan> default_plan();

}  // namespace stoker::kernels
