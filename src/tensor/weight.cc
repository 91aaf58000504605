#include "tensor/weight.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/mapped_file.h"
#include "tensor/formats.h"
#include "tensor/panels.h"

namespace stoker {
namespace {

constexpr int64_t kTile = 32;   // rows and columns that share a scale in kFp8Tile
constexpr int64_t kGroup = 32;  // columns that share a scale in kFp4Group and kFp8Group

// Bytes of a row of values and of scales; 0 scales for plain formats.
int64_t row_bytes(const Weight& w) {
  switch (w.format) {
    case WeightFormat::kBf16:
      return w.cols * 2;
    case WeightFormat::kF32:
      return w.cols * 4;
    case WeightFormat::kFp4Group:
      return w.cols / 2;
    case WeightFormat::kFp8Tile:
    case WeightFormat::kFp8Group:
      return w.cols;
    default:
      CHECK(false, "the matrix is not packed");
  }
  return 0;
}

void decode_fp8(const uint8_t* codes, const uint8_t* scales, int64_t cols, float* out) {
  for (int64_t first = 0; first < cols; first += kTile) {
    const float scale = ue8m0_decode(scales[first / kTile]);
    const int64_t last = first + kTile < cols ? first + kTile : cols;
    for (int64_t k = first; k < last; ++k) out[k] = e4m3_decode(codes[k]) * scale;
  }
}

void decode_fp4(const uint8_t* codes, const uint8_t* scales, int64_t cols, float* out) {
  for (int64_t k = 0; k < cols; k += 2) {
    const float scale = ue8m0_decode(scales[k / kGroup]);
    out[k] = e2m1_decode(codes[k / 2]) * scale;
    out[k + 1] = e2m1_decode(codes[k / 2] >> 4) * scale;
  }
}

}  // namespace

Weight rows_of(const Weight& weight, int64_t first, int64_t count) {
  CHECK(first >= 0 && count >= 0 && first + count <= weight.rows, "the rows are inside the matrix");
  CHECK(weight.format != WeightFormat::kFp8Tile || first % kTile == 0,
        "a tile of scales is not split");
  Weight part = weight;
  part.rows = count;
  part.data += first * row_bytes(weight);
  if (weight.format == WeightFormat::kFp8Tile) {
    part.scale += first / kTile * ((weight.cols + kTile - 1) / kTile);
  } else if (weight.scale != nullptr) {
    part.scale += first * (weight.cols / kGroup);
  }
  return part;
}

void decode_row(const Weight& weight, int64_t row, float* out) {
  DCHECK(row >= 0 && row < weight.rows, "the row is inside the matrix");
  if (is_packed(weight.format)) return unpack_row(weight, row, out);
  const uint8_t* data = weight.data + row * row_bytes(weight);
  switch (weight.format) {
    case WeightFormat::kBf16:
      for (int64_t k = 0; k < weight.cols; ++k)
        out[k] = bf16_decode(load_le<uint16_t>(data + 2 * k));
      break;
    case WeightFormat::kF32:
      for (int64_t k = 0; k < weight.cols; ++k) out[k] = load_le<float>(data + 4 * k);
      break;
    case WeightFormat::kFp8Tile:
      decode_fp8(data, weight.scale + row / kTile * ((weight.cols + kTile - 1) / kTile),
                 weight.cols, out);
      break;
    case WeightFormat::kFp8Group:
      decode_fp8(data, weight.scale + row * (weight.cols / kGroup), weight.cols, out);
      break;
    case WeightFormat::kFp4Group:
      decode_fp4(data, weight.scale + row * (weight.cols / kGroup), weight.cols, out);
      break;
    default:  // packed: above
      break;
  }
}

void prefetch_row(const Weight& weight, int64_t row) {
  constexpr int64_t kLine = 64;
  const uint8_t* data = weight.data + row * weight.cols;
  for (int64_t at = 0; at < weight.cols; at += kLine) __builtin_prefetch(data + at);
  __builtin_prefetch(weight.scale + row * (weight.cols / kGroup));
}

void read_row_ahead(const Weight& weight, int64_t row) {
  const int64_t groups = weight.cols / kGroup;
  read_ahead(weight.data + row * weight.cols, weight.cols);
  read_ahead(weight.scale + row * groups, groups);
}

}  // namespace stoker
