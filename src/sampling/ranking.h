// The head of a row's ranking without a sort: ids by falling value, the lower id first among
// equals.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/scratch.h"

namespace stoker::sampling {

/// A value that is below `x - distance`, whatever was rounded on the way to numbers that are
/// compared with it.
float surely_below(float x, float distance);

/// Lists those of `x` that are above `value`. -0 becomes 0, which is equal.
void list_above(std::span<const float> x, float value, Scratch& scratch);

/// The last place of the shortest head of the list's ranking whose weights come to `need`, at least
/// one. They must come to it all together, and equal values must have equal weights.
Place end_of_head(double need, Scratch& scratch);

/// The same of the first k; no more than are listed. Weights are overwritten.
Place end_of_first(size_t k, Scratch& scratch);

/// Drops what comes after `last` in the ranking from the list.
void keep_head(Place last, Listed& list);

}  // namespace stoker::sampling
