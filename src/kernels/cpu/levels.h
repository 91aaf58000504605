// The kernels of an instruction set: one table for each, filled by its own translation unit. All
// give the same bits, those of kernels/ref.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tensor/weight.h"

namespace stoker::kernels {

/// Levels, least first.
enum class Isa { kAvx2, kAvx512, kAvx512Bf16 };
inline constexpr size_t kNumLevels = 3;

/// "avx2", "avx512", "avx512bf16".
std::string_view isa_name(Isa isa);
std::optional<Isa> isa_of(std::string_view name);

/// Activations of a product as its kernels read them: runs of 64 steps (kernels/cpu/tile.h), in
/// each run row after row. Rows are rounded to bf16, except for plain formats. A product may use
/// some of the rows.
struct ArrangedRows {
  const float* data = nullptr;     ///< [runs, all, 64], at the first row that is used
  int64_t all = 0;                 ///< rows of a run
  int64_t count = 0;               ///< rows that are used
  const int32_t* index = nullptr;  ///< [count] which ones; null: the first `count`

  [[gnu::always_inline]] const float* row(int64_t i) const {
    return data + (index != nullptr ? index[i] : i) * 64;
  }
};

inline constexpr int64_t kRunSteps = 64;

/// One panel of a packed matrix with rows of activations.
struct PanelJob {
  WeightFormat format = WeightFormat::kFp4Panel;
  const uint8_t* data = nullptr;   ///< the panel's
  const uint8_t* scale = nullptr;  ///< kFp8Panel: the panel's
  int64_t cols = 0;
  ArrangedRows x;
  float* y = nullptr;  ///< [x.count, width], y_stride apart
  int64_t y_stride = 0;
  int64_t width = 0;  ///< live rows of the panel, at most 64
};

/// Rows of a kF32Parts matrix with rows of activations: x [count, cols / 16, 16] -> y [x_rows,
/// rows], y_stride apart.
struct PartsJob {
  const uint8_t* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  const float* x = nullptr;
  int64_t x_rows = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
};

/// What one token attends to, in order: window records, then latents.
struct KeyRecords {
  const uint8_t* const* window = nullptr;
  int64_t num_window = 0;
  const uint8_t* const* latents = nullptr;
  int64_t num_latents = 0;
};

struct AttendJob {
  const float* q = nullptr;  ///< [heads, dim], exact in bf16
  KeyRecords keys;
  const float* sink = nullptr;  ///< [heads]
  int32_t heads = 0;
  int64_t dim = 0;           ///< a multiple of 32
  float scale = 0;           ///< dim^-1/2
  float* scratch = nullptr;  ///< attend_scratch_floats(heads, dim, number of keys)
  float* out = nullptr;      ///< [heads, dim]
};

/// Index keys with the queries of several tokens: scores[r * stride + j] as index_scores.
struct IndexJob {
  ArrangedRows q;                  ///< rows * heads, arranged as for kFp4Panel
  const float* weights = nullptr;  ///< [rows, heads]
  int64_t rows = 0;
  int32_t heads = 0;
  int64_t dim = 0;                       ///< a multiple of 32
  const uint8_t* const* keys = nullptr;  ///< [n] index records
  int64_t n = 0;
  float* scratch = nullptr;  ///< index_scratch_floats(rows, heads, dim)
  float* scores = nullptr;
  int64_t stride = 0;
};

/// Scores and where they were found; room for `room` of both.
struct ScoreList {
  float* values = nullptr;
  int32_t* index = nullptr;
  int64_t room = 0;
};

struct Kernels {
  Isa isa = Isa::kAvx2;
  bool bf16_pairs = false;  ///< how activations of FP8 and FP4 products are arranged
  void (*panel)(const PanelJob&) = nullptr;
  void (*parts)(const PartsJob&) = nullptr;
  void (*attend)(const AttendJob&) = nullptr;
  void (*index_scores)(const IndexJob&) = nullptr;
  /// Appends the scores of [begin, n) that are above `threshold`, ascending by index, as long as 64
  /// more fit. `count` is how many there are and becomes how many there are then. The list's values
  /// may be the scores themselves, from count <= begin on. Returns where it stopped.
  int64_t (*find_above)(const float* scores, int64_t begin, int64_t n, float threshold,
                        const ScoreList& list, int64_t& count) = nullptr;
  /// kernels/moe.h, swiglu.
  void (*swiglu)(const float* gate, const float* up, int64_t n, float limit, const float* scale,
                 float* hidden) = nullptr;
};

extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512Bf16Kernels;

/// The levels that this processor has, least first; none without AVX2, FMA and F16C.
std::vector<Isa> usable_levels();
const Kernels& kernels_of(Isa isa);

/// Floats that arrange() writes for `rows` rows of a matrix of that format.
int64_t arranged_floats(WeightFormat format, bool bf16_pairs, int64_t rows, int64_t cols);

/// Row `row` of `rows` into its places in out [arranged_floats]. x [cols] f32.
void arrange(WeightFormat format, bool bf16_pairs, const float* x, int64_t cols, int64_t row,
             int64_t rows, float* out);

/// x [cols] -> out [cols / 16, 16], as kF32Parts has its rows.
void arrange_parts(const float* x, int64_t cols, float* out);

int64_t attend_scratch_floats(int32_t heads, int64_t dim, int64_t num_keys);
int64_t index_scratch_floats(int64_t rows, int32_t heads, int64_t dim);

}  // namespace stoker::kernels
