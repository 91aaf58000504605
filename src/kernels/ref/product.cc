#include "kernels/product.h"

#include <algorithm>
#include <vector>

#include "kernels/chain.h"
#include "kernels/panel.h"
#include "tensor/arith.h"
#include "tensor/formats.h"

namespace stoker::kernels {
namespace {

constexpr int64_t kParts = 16;  // runs of columns of product_parts

// Weight rows [first, first + count) as a panel: values[k * kPanel + i] is column k of row first +
// i, 0 beyond count.
void decode_panel(const Weight& w, int64_t first, int64_t count, std::vector<float>& values,
                  std::vector<float>& row) {
  for (int64_t i = 0; i < kPanel; ++i) {
    if (i < count) {
      decode_row(w, first + i, row.data());
    } else {
      std::fill(row.begin(), row.end(), 0.0F);
    }
    for (int64_t k = 0; k < w.cols; ++k)
      values[static_cast<size_t>(k * kPanel + i)] = row[static_cast<size_t>(k)];
  }
}

// Runs sum(rows of x, panel, acc) for every panel of w and every row of x; the last row fills up an
// incomplete set.
template <class Sum>
void for_each_panel(WorkerPool& pool, Rows x, const Weight& w, float* y, int64_t y_stride,
                    const Sum& sum) {
  pool.run((w.rows + kPanel - 1) / kPanel, [&](int64_t piece, int /*worker*/) {
    const int64_t first = piece * kPanel;
    const int64_t count = std::min(kPanel, w.rows - first);
    std::vector<float> panel(static_cast<size_t>(w.cols * kPanel));
    std::vector<float> row(static_cast<size_t>(w.cols));
    decode_panel(w, first, count, panel, row);
    for (int64_t r = 0; r < x.count; r += kTogether) {
      const float* rows[kTogether];
      for (int64_t i = 0; i < kTogether; ++i)
        rows[i] = x.data + std::min(r + i, x.count - 1) * x.stride;
      Sums acc = {};
      sum(rows, panel.data(), acc);
      for (int64_t i = 0; i < std::min(kTogether, x.count - r); ++i)
        std::copy_n(acc[i], count, y + (r + i) * y_stride + first);
    }
  });
}

std::vector<float> rounded_to_bf16(Rows x, int64_t cols) {
  std::vector<float> rounded(static_cast<size_t>(x.count * cols));
  for (int64_t r = 0; r < x.count; ++r) {
    std::transform(x.data + r * x.stride, x.data + r * x.stride + cols, rounded.begin() + r * cols,
                   bf16_round);
  }
  return rounded;
}

}  // namespace

void product(WorkerPool& pool, Rows x, const Weight& w, float* y, int64_t y_stride) {
  if (w.format == WeightFormat::kBf16 || w.format == WeightFormat::kF32) {
    for_each_panel(pool, x, w, y, y_stride, [&w](RowSet rows, const float* panel, Sums acc) {
      sum_plain(rows, panel, 0, w.cols, acc);
    });
    return;
  }
  const int64_t block = w.format == WeightFormat::kFp4Group ? kFp4Block : kPairBlock;
  const std::vector<float> rounded = rounded_to_bf16(x, w.cols);
  for_each_panel(pool, {rounded.data(), x.count, w.cols}, w, y, y_stride,
                 [&w, block](RowSet rows, const float* panel, Sums acc) {
                   sum_pairs(rows, panel, w.cols, block, acc);
                 });
}

void product_parts(WorkerPool& pool, Rows x, const Weight& w, float* y, int64_t y_stride) {
  const int64_t step = w.cols / kParts;
  for_each_panel(pool, x, w, y, y_stride, [step](RowSet rows, const float* panel, Sums acc) {
    for (int64_t part = 0; part < kParts; ++part) {
      Sums partial = {};
      sum_plain(rows, panel, part * step, (part + 1) * step, partial);
      for (int64_t r = 0; r < kTogether; ++r) {
        for (int64_t i = 0; i < kPanel; ++i)
          acc[r][i] = part == 0 ? partial[r][i] : acc[r][i] + partial[r][i];
      }
    }
  });
}

}  // namespace stoker::kernels
