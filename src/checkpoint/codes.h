// Looks at every stored number of a checkpoint once: no NaN, no infinity, no scale that leads to
// one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "stoker/result.h"
#include "tensor/dtype.h"

namespace stoker {

/// What the bytes of a tensor stand for. Packed e2m1 needs no check: each of its codes is finite.
enum class CodeKind {
  kE4m3,       ///< 0x7F and 0xFF are NaN
  kE4m3Scale,  ///< ue8m0 of e4m3 codes
  kE2m1Scale,  ///< ue8m0 of e2m1 codes
  kBf16,
  kF32,
};

/// A tensor to be checked; borrows everything.
struct CodeArray {
  CodeKind kind;
  const TensorView* view;
  const std::string* name;
  const std::string* file;
};

/// Checks all arrays with `num_threads` threads. `progress`, which may be null, is called from the
/// calling thread with the fraction done. Error: kCorruptData for the first bad element, in the
/// order given: tensor, row, column, file, and what it is.
Result<void> check_codes(const std::vector<CodeArray>& arrays, int num_threads,
                         const std::function<void(double fraction)>& progress);

}  // namespace stoker
