// A weight matrix where it lies, in a checkpoint file or in packed weights, in the format that it
// is stored in.
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
  // Packed for the kernels of this machine: tensor/panels.h.
  kBf16Panel,
  kF32Panel,
  kFp8Panel,
  kFp4Panel,
  kF32Parts,
};

/// A matrix [rows, cols], values and scales in place in the mapped file; row-major where it is not
/// packed. A vector has one row. Absent: data is null. Every code of an FP8 or FP4 matrix and every
/// scale is finite and in range, as checked at load.
struct Weight {
  WeightFormat format = WeightFormat::kBf16;
  int64_t rows = 0;
  int64_t cols = 0;
  const uint8_t* data = nullptr;   ///< no alignment is promised
  const uint8_t* scale = nullptr;  ///< null for the formats without scales of their own

  explicit operator bool() const { return data != nullptr; }
};

/// Whether a matrix is in one of the packed formats.
constexpr bool is_packed(WeightFormat format) {
  return format >= WeightFormat::kBf16Panel;
}

/// Rows [first, first + count) of a matrix that is not packed. With kFp8Tile, first is a multiple
/// of 32.
Weight rows_of(const Weight& weight, int64_t first, int64_t count);

/// Row `row` as float32, values times scale: out [weight.cols]. Any format.
void decode_row(const Weight& weight, int64_t row, float* out);

/// Asks for the bytes of a row of a kFp8Group matrix: from memory, or from the file that it is in.
void prefetch_row(const Weight& weight, int64_t row);
void read_row_ahead(const Weight& weight, int64_t row);

}  // namespace stoker
