// What this machine can do at most, measured in the process that measures kernels: reading memory,
// and multiplying.
#pragma once

#include <cstdint>

#include "base/worker_pool.h"
#include "kernels/cpu/levels.h"

namespace stoker::bench {

/// Loops that do nothing else, for one level. flops(n) does about n million floating-point
/// operations and returns how many it did.
struct LimitLoops {
  void (*read)(const uint8_t* data, int64_t bytes) = nullptr;
  double (*fma)(int64_t millions) = nullptr;
  double (*bf16_dot)(int64_t millions) = nullptr;  ///< null where the level has none
};

extern const LimitLoops kAvx2Loops;
extern const LimitLoops kAvx512Loops;
extern const LimitLoops kAvx512Bf16Loops;
const LimitLoops& loops_of(kernels::Isa isa);

}  // namespace stoker::bench
