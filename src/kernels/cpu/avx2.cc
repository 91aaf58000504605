// The level avx2.
#include "kernels/cpu/attend_rows.h"
#include "kernels/cpu/find_above.h"
#include "kernels/cpu/float_level.h"
#include "kernels/cpu/levels.h"
#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/score_keys.h"
#include "kernels/cpu/simd256.h"
#include "kernels/cpu/swiglu_rows.h"

namespace stoker::kernels {
namespace {
// Local to this file, and with it all that is made from it: no other file may get code of this
// instruction set.
struct Level : FloatLevel<Simd256, 2, 8> {
  static constexpr int kFp4AtOnce = 4;  // by measurement, these two
  static constexpr int kFp8AtOnce = 2;
};
}  // namespace

const Kernels kAvx2Kernels{Isa::kAvx2,
                           false,
                           panel_product<Level, Level>,
                           parts_product<Level>,
                           attend_rows<Level>,
                           score_keys<Level>,
                           find_above<Level>,
                           swiglu_row<Level>};

}  // namespace stoker::kernels
