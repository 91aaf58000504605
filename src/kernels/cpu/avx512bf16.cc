// The level avx512bf16.
#include "kernels/cpu/attend_rows.h"
#include "kernels/cpu/bf16_level.h"
#include "kernels/cpu/find_above.h"
#include "kernels/cpu/float_level.h"
#include "kernels/cpu/levels.h"
#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/score_keys.h"
#include "kernels/cpu/simd512.h"
#include "kernels/cpu/swiglu_rows.h"

namespace stoker::kernels {
namespace {
// As in avx2.cc.
struct Plain : FloatLevel<Simd512, 8, 16> {};
struct Level : Bf16Level {};
}  // namespace

const Kernels kAvx512Bf16Kernels{Isa::kAvx512Bf16,
                                 true,
                                 panel_product<Level, Plain>,
                                 parts_product<Plain>,
                                 attend_rows<Level>,
                                 score_keys<Level>,
                                 find_above<Plain>,
                                 swiglu_row<Level>};

}  // namespace stoker::kernels
