// Weights packed for the kernels of a CPU: panels of 64 rows, read front to back, in which a lane
// is a row. Packing keeps every bit of every value except the sign of zeros.
//
//   kFp4Panel   [panels, cols / 32] blocks of 1088 bytes: 64 bytes 191 - e, e the ue8m0 byte of
//   each
//               row; then for 4 steps of 8 columns, for each row, the 4 bytes of its 8 codes, even
//               column in the low nibble
//   kFp8Panel   [panels, cols / 32] blocks of 2048 bytes: for 8 steps of 4 columns, for each 4
//   rows,
//               their codes of columns (0, 1), row by row, then of columns (2, 3).
//               scale [panels, cols / 32, 2]: 191 - e of each 32 rows
//   kBf16Panel  [panels, ceil(cols / 2), 64 rows, 2 columns]; an odd last column is paired with
//   zeros kF32Panel   [panels, cols, 64 rows] kF32Parts   [rows, cols / 16, 16]: column p * cols /
//   16 + k is at [k, p]; for product_parts
//
// Rows that fill up the last panel are zeros. docs/formats.md has the same in words.
#pragma once

#include <cstdint>

#include "tensor/weight.h"

namespace stoker {

inline constexpr int64_t kPanelRows = 64;
inline constexpr int64_t kPanelBlock = 32;       ///< columns of a block
inline constexpr int64_t kFp4BlockBytes = 1088;  ///< of a panel
inline constexpr int64_t kFp8BlockBytes = 2048;  ///< of a panel
inline constexpr int64_t kNumParts = 16;         ///< runs of columns of kF32Parts
inline constexpr uint8_t kTopScale = 191;        ///< largest ue8m0 byte that packs
inline constexpr uint8_t kLeastFp4Scale = 2;     ///< smallest, FP4
inline constexpr uint8_t kLeastFp8Scale = 10;    ///< smallest, FP8

constexpr int64_t num_panels(int64_t rows) {
  return (rows + kPanelRows - 1) / kPanelRows;
}

/// Sizes of a packed matrix, in bytes.
struct PackedSize {
  int64_t data = 0;
  int64_t scale = 0;
};

/// The packed form of a matrix, `parts` for the projections of product_parts (kF32 only). The
/// format itself where there is none: kFp8Group.
WeightFormat packed_format(WeightFormat format, bool parts);

/// `format` is a packed one. cols is a multiple of 32 (FP8, FP4) or of 16 (kF32Parts).
PackedSize packed_size(WeightFormat format, int64_t rows, int64_t cols);

/// Whether every scale that belongs to a code other than zero can be packed. What cannot stays as
/// it is in the checkpoint, for the plain kernels. Reads all of an FP8 or FP4 matrix whose scales
/// are out of the ordinary, and else only its scales.
bool can_pack(const Weight& from);

/// Pieces that a matrix is packed in, in any order and by any thread: its panels, or with kF32Parts
/// its rows.
int64_t num_pack_pieces(const Weight& to);

/// What a piece takes: packed_size of one row, which fills a panel.
PackedSize pack_piece_size(const Weight& to);

/// Writes piece `piece` of `to` from the same rows of `from` into memory of the piece's own: data
/// and scale, [pack_piece_size(to)]. can_pack(from) holds.
void pack_piece(const Weight& from, const Weight& to, int64_t piece, uint8_t* data, uint8_t* scale);

/// Row `row` of a packed matrix as float32: out [cols].
void unpack_row(const Weight& packed, int64_t row, float* out);

}  // namespace stoker
