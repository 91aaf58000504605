// Scans of a row of logits: one table of functions for each instruction set, filled by its own
// translation unit. All give the same bits, those of sampling/plain.h. None flushes denormals: the
// caller keeps them (base/worker_pool.h).
#pragma once

#include <cstdint>

#include "kernels/cpu/levels.h"
#include "sampling/noise.h"

namespace stoker::sampling {

/// A place in the ranking: by falling value, the lower id first among equals.
struct Place {
  float x = 0;
  int32_t id = 0;
};

/// What the largest value of a row is, and whether none is NaN or infinite.
struct Extent {
  float most = 0;
  bool is_finite = true;
};

/// Which ids of a row may be drawn, and with what noise.
struct DrawJob {
  const float* x = nullptr;  ///< [n] logits over the temperature; -inf: banned
  int64_t n = 0;
  float above = 0;        ///< none of those up to this can be drawn
  Place last;             ///< nor what comes after it in the ranking
  float top = 0;          ///< the largest x
  float least_share = 0;  ///< nor those with e^(x - top) below this; 0: no such bound
  NoiseSource source;
};

/// x + noise of an id.
struct Score {
  float value = 0;
  int32_t id = 0;
};

struct Scans {
  /// n >= 1.
  Extent (*extent)(const float* x, int64_t n) = nullptr;
  /// The first index of `value`; n where there is none.
  int64_t (*first_of)(const float* x, int64_t n, float value) = nullptr;
  int64_t (*count_above)(const float* x, int64_t n, float value) = nullptr;
  /// The indices of those above `value` in `ids`, ascending, and these in `values`; their number.
  /// Up to 15 places behind them are overwritten.
  int64_t (*list_above)(const float* x, int64_t n, float value, int32_t* ids,
                        float* values) = nullptr;
  /// out[i] = x[i] / by.
  void (*divide)(const float* x, int64_t n, float by, float* out) = nullptr;
  /// out[i] = e^(x[i] - top) * 2^32, rounded to a whole number. Up to 15 places behind out [n] are
  /// overwritten.
  void (*masses)(const float* x, int64_t n, float top, double* out) = nullptr;
  /// The sum of the masses. Exact, since they are whole numbers.
  double (*mass_sum)(const float* x, int64_t n, float top) = nullptr;
  /// Sum of e^(x[i] - top), in 16 lanes.
  float (*exp_sum)(const float* x, int64_t n, float top) = nullptr;
  /// The best score of those that may be drawn and of `so_far`, the lower id of equals.
  Score (*draw)(const DrawJob& job, Score so_far) = nullptr;
};

extern const Scans kAvx2Scans;
extern const Scans kAvx512Scans;

/// The scans of a level that the processor has.
const Scans& scans_of(kernels::Isa isa);

}  // namespace stoker::sampling
