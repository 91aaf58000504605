// Limits of the level avx512.
#include "bench/limit_loops.h"
#include "bench/limits.h"
#include "kernels/cpu/float_level.h"
#include "kernels/cpu/simd512.h"

namespace stoker::bench {
namespace {
// Local to this file: kernels/cpu/avx2.cc says why.
struct Level : kernels::FloatLevel<kernels::Simd512, 8, 16> {};
}  // namespace

const LimitLoops kAvx512Loops{read_all<Level>, multiply_all<Level>, nullptr};

}  // namespace stoker::bench
