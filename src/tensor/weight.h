// A weight matrix where it lies in a checkpoint file, in the format that it is stored in.
#pragma once

#include <cstdint>

namespace stoker {

/// How a matrix is stored (docs/formats.md).
enum class WeightFormat {
  kBf16,
  kF32,
  kFp8Tile,   ///< e4m3 [rows, cols], one ue8m0 scale per 32x32 tile: scale [ceil(rows / 32),
              ///< ceil(cols / 32)]
  kFp4Group,  ///< e2m1 [rows, cols / 2], low nibble first, one ue8m0 scale per row and 32 columns:
              ///< scale [rows, cols / 32]
  kFp8Group,  ///< e4m3 [rows, cols], one ue8m0 scale per row and 32 columns: scale [rows, cols /
              ///< 32]
};

/// A matrix [rows, cols], row-major, values and scales in place in the mapped file. A vector has
/// one row. Absent: data is null. Every code of an FP8 or FP4 matrix and every scale is finite and
/// in range, as checked at load.
struct Weight {
  WeightFormat format = WeightFormat::kBf16;
  int64_t rows = 0;
  int64_t cols = 0;
  const uint8_t* data = nullptr;   ///< no alignment is promised
  const uint8_t* scale = nullptr;  ///< null for kBf16 and kF32

  explicit operator bool() const { return data != nullptr; }
};

/// Rows [first, first + count) of a matrix. With kFp8Tile, first is a multiple of 32.
Weight rows_of(const Weight& weight, int64_t first, int64_t count);

/// Row `row` as float32, values times scale: out [weight.cols].
void decode_row(const Weight& weight, int64_t row, float* out);

}  // namespace stoker
