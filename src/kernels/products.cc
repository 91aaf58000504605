#include "kernels/products.h"

#include <algorithm>

#include "tensor/panels.h"

namespace stoker::kernels {
namespace {

// Panels of a piece. With few rows a product reads as fast as it can: long runs of memory, as far
// as there remain pieces for many threads.
int64_t panels_together(const Product& product) {
  constexpr int64_t kFewRows = 8;
  constexpr int64_t kRun = 4;
  constexpr int64_t kLeastPieces = 8;
  const bool long_runs =
      product.count <= kFewRows && num_panels(product.w->rows) >= kLeastPieces * kRun;
  return long_runs ? kRun : 1;
}

// A product with the rows that it reads, ready for its panels.
struct Job {
  const Product* product = nullptr;
  const Kernels* kernels = nullptr;
  int64_t arrangement = -1;  // index of it
  int64_t together = 1;      // panels of a piece
  int64_t first_piece = 0;   // of all jobs'
};

// All rows of one x in the way of one format and level.
struct Arrangement {
  Rows x;
  WeightFormat format = WeightFormat::kFp4Panel;
  bool bf16_pairs = false;
  int64_t cols = 0;
  float* data = nullptr;
  int64_t first_piece = 0;  // of all arrangements' rows
};

// Formats with the same order of columns and the same rounding are one.
WeightFormat order_of(WeightFormat format) {
  return format == WeightFormat::kF32Panel ? WeightFormat::kBf16Panel : format;
}

bool fits(const Arrangement& a, const Product& product, const Kernels& kernels) {
  return a.x.data == product.x.data && a.x.count == product.x.count &&
         a.x.stride == product.x.stride && a.format == order_of(product.w->format) &&
         a.bf16_pairs == kernels.bf16_pairs && a.cols == product.w->cols;
}

// The last of the first `count` items whose first piece is not after `piece`.
template <class T>
const T& item_of(std::span<const T> items, int64_t count, int64_t piece) {
  return *(std::ranges::upper_bound(items.first(static_cast<size_t>(count)), piece, {},
                                    &T::first_piece) -
           1);
}

void compute_panel(const Job& job, const Arrangement& x, int64_t panel) {
  const Product& product = *job.product;
  const Weight& w = *product.w;
  const PackedSize one = packed_size(w.format, 1, w.cols);
  PanelJob out;
  out.format = w.format;
  out.data = w.data + panel * one.data;
  out.scale = w.scale == nullptr ? nullptr : w.scale + panel * one.scale;
  out.cols = w.cols;
  out.x = {x.data, x.x.count, product.count, product.index};
  out.y = product.y + panel * kPanelRows;
  out.y_stride = product.y_stride;
  out.width = std::min(kPanelRows, w.rows - panel * kPanelRows);
  job.kernels->panel(out);
}

void plain(const Workbench& bench, const Product& product) {
  Rows x = product.x;
  if (product.index != nullptr) {
    const int64_t cols = product.w->cols;
    const std::span<float> gathered = bench.arena.take<float>(product.count * cols);
    for (int64_t i = 0; i < product.count; ++i) {
      std::copy_n(x.data + product.index[i] * x.stride, cols, gathered.begin() + i * cols);
    }
    x = {gathered.data(), product.count, cols};
  }
  kernels::product(bench.pool, x, *product.w, product.y, product.y_stride);
}

// Jobs of the packed products, and what they read.
struct Plan {
  std::span<Job> jobs;
  std::span<Arrangement> arrangements;
  int64_t num_jobs = 0;
  int64_t num_arrangements = 0;
  int64_t num_pieces = 0;
  int64_t num_rows = 0;  // to arrange
};

// The arrangement that the product reads: one of the latest, or a new one.
int64_t arrangement_of(const Workbench& bench, Plan& plan, const Product& product,
                       const Kernels& kernels) {
  constexpr int64_t kLookedAt = 4;
  for (int64_t i = plan.num_arrangements;
       i-- > std::max<int64_t>(0, plan.num_arrangements - kLookedAt);) {
    if (fits(plan.arrangements[static_cast<size_t>(i)], product, kernels)) return i;
  }
  Arrangement& a = plan.arrangements[static_cast<size_t>(plan.num_arrangements)];
  a = {product.x,    order_of(product.w->format), kernels.bf16_pairs, product.w->cols, nullptr,
       plan.num_rows};
  a.data =
      bench.arena.take<float>(arranged_floats(a.format, a.bf16_pairs, a.x.count, a.cols)).data();
  plan.num_rows += a.x.count;
  return plan.num_arrangements++;
}

Plan plan_jobs(const Workbench& bench, std::span<const Product> all) {
  Plan plan;
  plan.jobs = bench.arena.take<Job>(static_cast<int64_t>(all.size()));
  plan.arrangements = bench.arena.take<Arrangement>(static_cast<int64_t>(all.size()));
  for (const Product& product : all) {
    if (product.count == 0) continue;
    if (!is_packed(product.w->format)) {
      plain(bench, product);
      continue;
    }
    Job& job = plan.jobs[static_cast<size_t>(plan.num_jobs++)];
    const Kernels& kernels = bench.plan.product(product.w->format, product.count);
    job = {&product, &kernels, arrangement_of(bench, plan, product, kernels),
           panels_together(product), plan.num_pieces};
    plan.num_pieces += (num_panels(product.w->rows) + job.together - 1) / job.together;
  }
  return plan;
}

}  // namespace

void products(const Workbench& bench, std::span<const Product> all) {
  const ArenaScope scope(bench.arena);
  const Plan plan = plan_jobs(bench, all);
  bench.pool.run(plan.num_rows, [&plan](int64_t piece, int /*worker*/) {
    const Arrangement& a = item_of<Arrangement>(plan.arrangements, plan.num_arrangements, piece);
    const int64_t row = piece - a.first_piece;
    arrange(a.format, a.bf16_pairs, a.x.data + row * a.x.stride, a.cols, row, a.x.count, a.data);
  });
  bench.pool.run(plan.num_pieces, [&plan](int64_t piece, int /*worker*/) {
    const Job& job = item_of<Job>(plan.jobs, plan.num_jobs, piece);
    const Arrangement& x = plan.arrangements[static_cast<size_t>(job.arrangement)];
    const int64_t first = (piece - job.first_piece) * job.together;
    const int64_t end = std::min(first + job.together, num_panels(job.product->w->rows));
    for (int64_t panel = first; panel < end; ++panel) compute_panel(job, x, panel);
  });
}

void product_of(const Workbench& bench, Rows x, const Weight& w, float* y, int64_t y_stride) {
  const Product one{x, nullptr, x.count, &w, y, y_stride};
  products(bench, {&one, 1});
}

void parts_product_of(const Workbench& bench, Rows x, const Weight& w, float* y, int64_t y_stride) {
  if (w.format != WeightFormat::kF32Parts) {
    kernels::product_parts(bench.pool, x, w, y, y_stride);
    return;
  }
  constexpr int64_t kTogether = 4;  // rows of the matrix in a piece
  const ArenaScope scope(bench.arena);
  float* turned = bench.arena.take<float>(x.count * w.cols).data();
  bench.pool.run(x.count, [&](int64_t row, int /*worker*/) {
    arrange_parts(x.data + row * x.stride, w.cols, turned + row * w.cols);
  });
  bench.pool.run((w.rows + kTogether - 1) / kTogether, [&](int64_t piece, int /*worker*/) {
    const int64_t first = piece * kTogether;
    bench.plan.rest->parts({w.data + first * w.cols * 4, std::min(kTogether, w.rows - first),
                            w.cols, turned, x.count, y + first, y_stride});
  });
}

}  // namespace stoker::kernels
