#include "tensor/panels.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "tensor/formats.h"

namespace stoker {
namespace {

constexpr int64_t kFp4Steps = 4;  // of a block; 8 columns each
constexpr int64_t kFp8Steps = 8;  // of a block; 4 columns each

// A zero is stored as +0: scaling is a saturating subtraction of exponents, which -0 would break.
uint8_t without_minus_zero_fp8(uint8_t code) {
  return code == 0x80 ? uint8_t{0} : code;
}

uint8_t without_minus_zero_fp4(uint8_t pair) {
  if ((pair & 0x0F) == 0x08) pair &= 0xF0;
  if ((pair & 0xF0) == 0x80) pair &= 0x0F;
  return pair;
}

// Scale bytes of a block of zeros are never used, and may be any that can be packed.
uint8_t packed_scale(uint8_t e, uint8_t least) {
  return static_cast<uint8_t>(kTopScale - (e < least || e > kTopScale ? kTopScale : e));
}

bool is_legal(uint8_t e, uint8_t least) {
  return e >= least && e <= kTopScale;
}

bool is_zero_fp4(const uint8_t* codes) {
  return std::all_of(codes, codes + kPanelBlock / 2,
                     [](uint8_t pair) { return without_minus_zero_fp4(pair) == 0; });
}

// Rows [first, first + 32) of block `block` of columns of a kFp8Tile matrix.
bool is_zero_fp8(const Weight& w, int64_t first, int64_t block) {
  for (int64_t row = first; row < std::min(first + kPanelBlock, w.rows); ++row) {
    const uint8_t* codes = w.data + row * w.cols + block * kPanelBlock;
    if (!std::all_of(codes, codes + kPanelBlock,
                     [](uint8_t code) { return without_minus_zero_fp8(code) == 0; })) {
      return false;
    }
  }
  return true;
}

void pack_fp4(const Weight& from, int64_t panel, uint8_t* out) {
  const int64_t blocks = from.cols / kPanelBlock;
  for (int64_t block = 0; block < blocks; ++block, out += kFp4BlockBytes) {
    for (int64_t i = 0; i < kPanelRows; ++i) {
      const int64_t row = panel * kPanelRows + i;
      uint8_t codes[kPanelBlock / 2] = {};
      uint8_t e = kTopScale;
      if (row < from.rows) {
        const uint8_t* in = from.data + (row * blocks + block) * (kPanelBlock / 2);
        std::transform(in, in + kPanelBlock / 2, codes, without_minus_zero_fp4);
        e = from.scale[row * blocks + block];
      }
      out[i] = packed_scale(e, kLeastFp4Scale);
      for (int64_t step = 0; step < kFp4Steps; ++step)
        std::memcpy(out + kPanelRows + (step * kPanelRows + i) * 4, codes + step * 4, 4);
    }
  }
}

// Where in its step's 256 bytes the codes (2 * half, 2 * half + 1) of row i are.
constexpr int64_t fp8_place(int64_t i, int64_t half) {
  return i / 4 * 16 + half * 8 + i % 4 * 2;
}

void pack_fp8(const Weight& from, int64_t panel, uint8_t* out, uint8_t* scale) {
  const int64_t blocks = from.cols / kPanelBlock;
  for (int64_t block = 0; block < blocks; ++block, out += kFp8BlockBytes, scale += 2) {
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t tile = panel * 2 + half;
      scale[half] = packed_scale(
          tile * kPanelBlock < from.rows ? from.scale[tile * blocks + block] : kTopScale,
          kLeastFp8Scale);
    }
    for (int64_t i = 0; i < kPanelRows; ++i) {
      const int64_t row = panel * kPanelRows + i;
      uint8_t codes[kPanelBlock] = {};
      if (row < from.rows) {
        const uint8_t* in = from.data + row * from.cols + block * kPanelBlock;
        std::transform(in, in + kPanelBlock, codes, without_minus_zero_fp8);
      }
      for (int64_t step = 0; step < kFp8Steps; ++step) {
        for (int64_t half = 0; half < 2; ++half)
          std::memcpy(out + step * 256 + fp8_place(i, half), codes + step * 4 + half * 2, 2);
      }
    }
  }
}

void pack_plain(const Weight& from, int64_t panel, int64_t value_bytes, uint8_t* out) {
  const int64_t together = 4 / value_bytes;  // columns beside each other
  const int64_t groups = (from.cols + together - 1) / together;
  std::memset(out, 0, static_cast<size_t>(groups * kPanelRows * 4));
  for (int64_t i = 0; i < std::min(kPanelRows, from.rows - panel * kPanelRows); ++i) {
    const uint8_t* in = from.data + (panel * kPanelRows + i) * from.cols * value_bytes;
    for (int64_t k = 0; k < from.cols; ++k) {
      std::memcpy(out + (k / together * kPanelRows + i) * 4 + k % together * value_bytes,
                  in + k * value_bytes, static_cast<size_t>(value_bytes));
    }
  }
}

void pack_parts(const Weight& from, int64_t row, uint8_t* out) {
  const int64_t run = from.cols / kNumParts;
  const uint8_t* in = from.data + row * from.cols * 4;
  for (int64_t k = 0; k < run; ++k) {
    for (int64_t part = 0; part < kNumParts; ++part)
      std::memcpy(out + (k * kNumParts + part) * 4, in + (part * run + k) * 4, 4);
  }
}

// ue8m0 byte of what packed_scale made.
float scale_of(uint8_t packed) {
  return ue8m0_decode(static_cast<uint8_t>(kTopScale - packed));
}

}  // namespace

WeightFormat packed_format(WeightFormat format, bool parts) {
  switch (format) {
    case WeightFormat::kBf16:
      return WeightFormat::kBf16Panel;
    case WeightFormat::kF32:
      return parts ? WeightFormat::kF32Parts : WeightFormat::kF32Panel;
    case WeightFormat::kFp8Tile:
      return WeightFormat::kFp8Panel;
    case WeightFormat::kFp4Group:
      return WeightFormat::kFp4Panel;
    default:
      return format;
  }
}

PackedSize packed_size(WeightFormat format, int64_t rows, int64_t cols) {
  const int64_t panels = num_panels(rows);
  const int64_t blocks = cols / kPanelBlock;
  switch (format) {
    case WeightFormat::kFp4Panel:
      return {panels * blocks * kFp4BlockBytes, 0};
    case WeightFormat::kFp8Panel:
      return {panels * blocks * kFp8BlockBytes, panels * blocks * 2};
    case WeightFormat::kBf16Panel:
      return {panels * ((cols + 1) / 2) * kPanelRows * 4, 0};
    case WeightFormat::kF32Panel:
      return {panels * cols * kPanelRows * 4, 0};
    case WeightFormat::kF32Parts:
      return {rows * cols * 4, 0};
    default:
      CHECK(false, "the format is a packed one");
  }
  return {};
}

bool can_pack(const Weight& from) {
  const int64_t blocks = from.cols / kPanelBlock;
  if (from.format == WeightFormat::kFp4Group) {
    for (int64_t i = 0; i < from.rows * blocks; ++i) {
      if (!is_legal(from.scale[i], kLeastFp4Scale) &&
          !is_zero_fp4(from.data + i * (kPanelBlock / 2))) {
        return false;
      }
    }
  } else if (from.format == WeightFormat::kFp8Tile) {
    for (int64_t tile = 0; tile * kPanelBlock < from.rows; ++tile) {
      for (int64_t block = 0; block < blocks; ++block) {
        if (!is_legal(from.scale[tile * blocks + block], kLeastFp8Scale) &&
            !is_zero_fp8(from, tile * kPanelBlock, block)) {
          return false;
        }
      }
    }
  }
  return is_packed(packed_format(from.format, false));
}

int64_t num_pack_pieces(const Weight& to) {
  return to.format == WeightFormat::kF32Parts ? to.rows : num_panels(to.rows);
}

PackedSize pack_piece_size(const Weight& to) {
  return packed_size(to.format, 1, to.cols);
}

void pack_piece(const Weight& from, const Weight& to, int64_t piece, uint8_t* data,
                uint8_t* scale) {
  switch (to.format) {
    case WeightFormat::kFp4Panel:
      return pack_fp4(from, piece, data);
    case WeightFormat::kFp8Panel:
      return pack_fp8(from, piece, data, scale);
    case WeightFormat::kBf16Panel:
      return pack_plain(from, piece, 2, data);
    case WeightFormat::kF32Panel:
      return pack_plain(from, piece, 4, data);
    case WeightFormat::kF32Parts:
      return pack_parts(from, piece, data);
    default:
      CHECK(false, "the format is a packed one");
  }
}

void unpack_row(const Weight& packed, int64_t row, float* out) {
  const int64_t panel = row / kPanelRows;
  const int64_t i = row % kPanelRows;
  const int64_t blocks = packed.cols / kPanelBlock;
  for (int64_t k = 0; k < packed.cols; ++k) {
    const int64_t block = panel * blocks + k / kPanelBlock;
    const int64_t in_block = k % kPanelBlock;
    switch (packed.format) {
      case WeightFormat::kFp4Panel: {
        const uint8_t* at = packed.data + block * kFp4BlockBytes;
        const uint8_t pair =
            at[kPanelRows + (in_block / 8 * kPanelRows + i) * 4 + in_block % 8 / 2];
        out[k] = e2m1_decode(static_cast<uint8_t>(k % 2 == 0 ? pair : pair >> 4)) * scale_of(at[i]);
        break;
      }
      case WeightFormat::kFp8Panel: {
        const uint8_t code = packed.data[block * kFp8BlockBytes + in_block / 4 * 256 +
                                         fp8_place(i, in_block % 4 / 2) + k % 2];
        out[k] = e4m3_decode(code) * scale_of(packed.scale[block * 2 + i / kPanelBlock]);
        break;
      }
      case WeightFormat::kBf16Panel:
        out[k] = bf16_decode(load_le<uint16_t>(
            packed.data + ((panel * ((packed.cols + 1) / 2) + k / 2) * kPanelRows + i) * 4 +
            k % 2 * 2));
        break;
      case WeightFormat::kF32Panel:
        out[k] = load_le<float>(packed.data + ((panel * packed.cols + k) * kPanelRows + i) * 4);
        break;
      case WeightFormat::kF32Parts: {
        const int64_t run = packed.cols / kNumParts;
        out[k] =
            load_le<float>(packed.data + (row * packed.cols + k % run * kNumParts + k / run) * 4);
        break;
      }
      default:
        CHECK(false, "the format is a packed one");
    }
  }
}

}  // namespace stoker
