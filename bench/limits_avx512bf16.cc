// Limits of the level avx512bf16.
#include "bench/limit_loops.h"
#include "bench/limits.h"
#include "kernels/cpu/bf16_level.h"
#include "kernels/cpu/float_level.h"
#include "kernels/cpu/simd512.h"

namespace stoker::bench {
namespace {
// Local to this file: kernels/cpu/avx2.cc says why.
struct Plain : kernels::FloatLevel<kernels::Simd512, 8, 16> {};
struct Pairs : kernels::Bf16Level {};

double multiply_pairs(int64_t millions) {
  return 2 * multiply_all<Pairs>(millions / 2);  // a lane is two products
}
}  // namespace

const LimitLoops kAvx512Bf16Loops{read_all<Plain>, multiply_all<Plain>, multiply_pairs};

}  // namespace stoker::bench
