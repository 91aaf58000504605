#include "sampling/cpu/scans.h"

namespace stoker::sampling {

const Scans& scans_of(kernels::Isa isa) {
  return isa == kernels::Isa::kAvx2 ? kAvx2Scans : kAvx512Scans;
}

}  // namespace stoker::sampling
