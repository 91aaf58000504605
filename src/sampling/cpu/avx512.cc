// The scans of the level avx512.
#include "sampling/cpu/ops512.h"
#include "sampling/cpu/row_scans.h"
#include "sampling/cpu/scans.h"

namespace stoker::sampling {
namespace {
// Local to this file, and with it all that is made from it: no other file may get code of this
// instruction set.
struct Level : Ops512 {};
}  // namespace

const Scans kAvx512Scans{extent<Level>,     first_of<Level>, count_above<Level>,
                         list_above<Level>, divide<Level>,   masses<Level>,
                         mass_sum<Level>,   exp_sum<Level>,  draw<Level>};

}  // namespace stoker::sampling
