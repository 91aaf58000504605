// Limits of the level avx2.
#include "bench/limit_loops.h"
#include "bench/limits.h"
#include "kernels/cpu/float_level.h"
#include "kernels/cpu/simd256.h"

namespace stoker::bench {
namespace {
// Local to this file: kernels/cpu/avx2.cc says why.
struct Level : kernels::FloatLevel<kernels::Simd256, 2, 8> {};
}  // namespace

const LimitLoops kAvx2Loops{read_all<Level>, multiply_all<Level>, nullptr};

}  // namespace stoker::bench
