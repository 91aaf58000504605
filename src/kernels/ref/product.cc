#include "kernels/product.h"

#include <algorithm>
#include <vector>

#include "kernels/chain.h"
#include "tensor/arith.h"
#include "tensor/formats.h"

namespace stoker::kernels {
namespace {

constexpr int64_t kPanel = 16;  // outputs that are summed side by side; each in its own fixed order
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

// acc[i] = fma(x, column i of the panel at k, acc[i]).
inline void add_column(float x, const float* panel, float* acc) {
  for (int64_t i = 0; i < kPanel; ++i) acc[i] = arith::fma(x, panel[i], acc[i]);
}

// Columns ascending, in [begin, end).
void sum_plain(const float* x, const float* panel, int64_t begin, int64_t end, float* acc) {
  for (int64_t k = begin; k < end; ++k) add_column(x[k], panel + k * kPanel, acc);
}

// Columns by pairs, the second of each pair first.
void sum_pairs(const float* x, const float* panel, int64_t cols, int64_t block, float* acc) {
  const int64_t half = block / 2;
  for (int64_t first = 0; first < cols; first += block) {
    for (int64_t i = 0; i < half; ++i) {
      const int64_t low = first + i;
      const int64_t high = low + half;
      add_column(x[high], panel + high * kPanel, acc);
      add_column(x[low], panel + low * kPanel, acc);
    }
  }
}

// Runs sum(x row, panel, acc) for every panel of w and every row of x.
template <class Sum>
void for_each_panel(WorkerPool& pool, Rows x, const Weight& w, float* y, int64_t y_stride,
                    const Sum& sum) {
  pool.run((w.rows + kPanel - 1) / kPanel, [&](int64_t piece, int /*worker*/) {
    const int64_t first = piece * kPanel;
    const int64_t count = std::min(kPanel, w.rows - first);
    std::vector<float> panel(static_cast<size_t>(w.cols * kPanel));
    std::vector<float> row(static_cast<size_t>(w.cols));
    decode_panel(w, first, count, panel, row);
    for (int64_t r = 0; r < x.count; ++r) {
      float acc[kPanel] = {};
      sum(x.data + r * x.stride, panel.data(), acc);
      std::copy_n(acc, count, y + r * y_stride + first);
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
    for_each_panel(pool, x, w, y, y_stride, [&w](const float* row, const float* panel, float* acc) {
      sum_plain(row, panel, 0, w.cols, acc);
    });
    return;
  }
  const int64_t block = w.format == WeightFormat::kFp4Group ? kFp4Block : kPairBlock;
  const std::vector<float> rounded = rounded_to_bf16(x, w.cols);
  for_each_panel(pool, {rounded.data(), x.count, w.cols}, w, y, y_stride,
                 [&w, block](const float* row, const float* panel, float* acc) {
                   sum_pairs(row, panel, w.cols, block, acc);
                 });
}

void product_parts(WorkerPool& pool, Rows x, const Weight& w, float* y, int64_t y_stride) {
  const int64_t step = w.cols / kParts;
  for_each_panel(pool, x, w, y, y_stride, [step](const float* row, const float* panel, float* acc) {
    for (int64_t part = 0; part < kParts; ++part) {
      float partial[kPanel] = {};
      sum_plain(row, panel, part * step, (part + 1) * step, partial);
      for (int64_t i = 0; i < kPanel; ++i) acc[i] = part == 0 ? partial[i] : acc[i] + partial[i];
    }
  });
}

}  // namespace stoker::kernels
