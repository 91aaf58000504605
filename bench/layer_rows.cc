#include "bench/layer_rows.h"

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/check.h"
#include "bench/onednn.h"
#include "bench/rows.h"
#include "kernels/products.h"
#include "tensor/formats.h"
#include "tensor/panels.h"

namespace stoker::bench {
namespace {

using kernels::Product;

constexpr int64_t kHidden = 5120;
constexpr int64_t kExpert = 2304;

// Takes matrices from the panels, each behind the one before, and from the beginning again at the
// end: what was read a whole memory ago is in no cache.
class Matrices {
 public:
  explicit Matrices(const RandomPanels& panels) : panels_(panels) {}

  Weight take(WeightFormat format, int64_t rows, int64_t cols) {
    const int64_t bytes = packed_size(format, rows, cols).data;
    CHECK(bytes < panels_.bytes, "a matrix fits");
    if (at_ + bytes > panels_.bytes) at_ = 0;
    const uint8_t* data = panels_.data + at_;
    at_ += (bytes + kFp4BlockBytes - 1) / kFp4BlockBytes * kFp4BlockBytes;
    taken_ += bytes;
    return {format, rows, cols, data, panels_.scales};
  }
  // Bytes of all that were taken.
  int64_t taken() const { return taken_; }

 private:
  const RandomPanels panels_;
  int64_t at_ = 0;
  int64_t taken_ = 0;
};

std::vector<float> normals(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(count));
  for (float& value : out) value = normal(random);
  return out;
}

// The weights that a step of `rows` tokens reads in one layer at the released widths, each token
// with six experts of its own, and the products with them, in the order and the groups of the
// model. Numbers mean nothing: activations of one product are not those of the next.
class Layer {
 public:
  Layer(Matrices& matrices, int64_t rows)
      : rows_(rows), x_(normals(rows * kWidest, 1)), y_(static_cast<size_t>(kPlaces * kWidest)) {
    const int64_t before = matrices.taken();
    const auto fp8 = [&](int64_t out, int64_t in) {
      return matrices.take(WeightFormat::kFp8Panel, out, in);
    };
    const auto parts = [&] { return matrices.take(WeightFormat::kF32Parts, 24, 4 * kHidden); };
    mixes_ = {parts(), parts()};
    phases_ = {{fp8(1280, kHidden)}, {fp8(512, kHidden)}, {fp8(32768, 1280)}};
    phases_.emplace_back();
    for (int group = 0; group < 8; ++group) phases_.back().push_back(fp8(1024, 4096));
    phases_.push_back({fp8(kHidden, 8192)});
    phases_.push_back({matrices.take(WeightFormat::kBf16Panel, 384, kHidden)});
    std::vector<Weight> wide;
    std::vector<Weight> narrow;
    for (int64_t expert = 0; expert < 6 * rows; ++expert) {
      for (int i = 0; i < 2; ++i)
        wide.push_back(matrices.take(WeightFormat::kFp4Panel, kExpert, kHidden));
      narrow.push_back(matrices.take(WeightFormat::kFp4Panel, kHidden, kExpert));
    }
    for (int i = 0; i < 2; ++i) wide.push_back(fp8(kExpert, kHidden));
    narrow.push_back(fp8(kHidden, kExpert));
    phases_.push_back(std::move(wide));
    phases_.push_back(std::move(narrow));
    bytes_ = matrices.taken() - before;
  }

  int64_t bytes() const { return bytes_; }

  void run(const kernels::Workbench& bench) {
    for (const Weight& w : mixes_)
      kernels::parts_product_of(bench, {x_.data(), rows_, w.cols}, w, y_.data(), w.rows);
    for (const std::vector<Weight>& phase : phases_) {
      std::vector<Product> products;
      float* y = y_.data();
      for (const Weight& w : phase) {
        // An expert has one token; the others have all.
        const bool is_expert = w.format == WeightFormat::kFp4Panel;
        const int64_t count = is_expert ? 1 : rows_;
        const auto token = static_cast<int64_t>(products.size()) % rows_;
        index_[static_cast<size_t>(token)] = static_cast<int32_t>(token);
        products.push_back({{x_.data(), rows_, w.cols},
                            is_expert ? &index_[static_cast<size_t>(token)] : nullptr,
                            count,
                            &w,
                            y,
                            w.rows});
        y += count * w.rows;
      }
      kernels::products(bench, products);
    }
  }

 private:
  static constexpr int64_t kWidest = 32768;
  static constexpr int64_t kPlaces = 16;  // of kWidest floats: room for what any phase gives

  const int64_t rows_;
  std::vector<float> x_;
  std::vector<float> y_;
  std::vector<int32_t> index_ = std::vector<int32_t>(64);
  std::vector<Weight> mixes_;
  std::vector<std::vector<Weight>> phases_;
  int64_t bytes_ = 0;
};

void layer(benchmark::State& state, const Row& row, const RandomPanels& panels, int64_t rows) {
  const FlushDenormals flush;
  WorkerPool pool(2);
  Arena arena(int64_t{64} << 20);
  const kernels::KernelPlan plan = *kernels::default_plan();
  Matrices matrices(panels);
  Layer one(matrices, rows);
  std::vector<double> ratios;
  std::vector<double> reads;
  for (auto _ : state) {
    one.run({pool, arena, plan});
    for (int pair = 0; pair < kPairs; ++pair) {
      reads.push_back(read_seconds(pool, panels.data, panels.bytes));
      const double read_s =
          reads.back() * static_cast<double>(one.bytes()) / static_cast<double>(panels.bytes);
      ratios.push_back(read_s / seconds_of([&] { one.run({pool, arena, plan}); }));
    }
  }
  report(state, row, ratios, reads,
         std::to_string(one.bytes() / 1'000'000) + " MB against a plain read, " +
             rate(static_cast<double>(panels.bytes) / median(reads)));
}

// Products of `rows` rows with experts that are in no cache, one thread, to oneDNN's with as many
// bf16 matrices of that shape.
void beside_onednn(benchmark::State& state, const Row& row, const RandomPanels& panels,
                   int64_t rows) {
  constexpr int64_t kMatrices = 8;
  const FlushDenormals flush;
  WorkerPool pool(1);
  Arena arena(int64_t{64} << 20);
  const kernels::KernelPlan plan = *kernels::default_plan();
  const std::vector<float> x = normals(rows * kHidden, 2);
  std::vector<float> y(static_cast<size_t>(rows * kExpert));
  Matrices matrices(panels);
  OneDnn other(rows, kHidden, kExpert, kMatrices);
  std::vector<double> ratios;
  for (auto _ : state) {
    for (int pair = 0; pair <= kPairs; ++pair) {
      const double other_s = seconds_of([&] {
        for (int64_t i = 0; i < kMatrices; ++i) other.multiply(i);
      });
      const double found_s = seconds_of([&] {
        for (int64_t i = 0; i < kMatrices; ++i) {
          const Weight w = matrices.take(WeightFormat::kFp4Panel, kExpert, kHidden);
          kernels::product_of({pool, arena, plan}, {x.data(), rows, kHidden}, w, y.data(), kExpert);
        }
      });
      if (pair > 0) ratios.push_back(other_s / found_s);  // the first one warms up
    }
  }
  report(state, row, ratios, {},
         std::string(isa_name(plan.product(WeightFormat::kFp4Panel, rows).isa)) +
             " against oneDNN " + OneDnn::version() + ", bf16");
}

// Relative root mean square of what a product of one row is off from the exact one.
void error(benchmark::State& state, const Row& row, const RandomPanels& panels,
           WeightFormat format) {
  constexpr int64_t kRows = 4096;
  const FlushDenormals flush;
  WorkerPool pool(1);
  Arena arena(int64_t{64} << 20);
  const kernels::KernelPlan plan = *kernels::default_plan();
  std::vector<float> x = normals(kHidden, 3);
  for (float& value : x) value = bf16_round(value);
  std::vector<float> y(kRows);
  const Weight w = Matrices(panels).take(format, kRows, kHidden);
  double off = 0;
  double all = 0;
  for (auto _ : state) {
    kernels::product_of({pool, arena, plan}, {x.data(), 1, kHidden}, w, y.data(), kRows);
    std::vector<float> decoded(kHidden);
    for (int64_t r = 0; r < kRows; ++r) {
      decode_row(w, r, decoded.data());
      double exact = 0;
      for (size_t k = 0; k < decoded.size(); ++k)
        exact += static_cast<double>(decoded[k]) * static_cast<double>(x[k]);
      const double difference = static_cast<double>(y[static_cast<size_t>(r)]) - exact;
      off += difference * difference;
      all += exact * exact;
    }
  }
  report(state, row, {std::sqrt(off / all)}, {},
         "relative RMS, " + std::to_string(kHidden) + " columns, to float64");
}

}  // namespace

void add_layer_rows(const RandomPanels& panels) {
  for (const auto& [rows, target] : {std::pair<int64_t, double>{1, 0.90}, {4, 0.88}, {8, 0.80}}) {
    add({"layer/rows:" + std::to_string(rows), target},
        [panels, rows = rows](benchmark::State& state, const Row& row) {
          layer(state, row, panels, rows);
        });
  }
  for (const auto& [rows, target] :
       {std::pair<int64_t, double>{16, 1.0}, {64, 0.90}, {512, 0.90}}) {
    add({"onednn_fp4/rows:" + std::to_string(rows), target},
        [panels, rows = rows](benchmark::State& state, const Row& row) {
          if (const std::string why = OneDnn::lacking(); !why.empty()) {
            state.SkipWithError(why.c_str());
            return;
          }
          beside_onednn(state, row, panels, rows);
        });
  }
  add({"error_fp4", 5e-7, true}, [panels](benchmark::State& state, const Row& row) {
    error(state, row, panels, WeightFormat::kFp4Panel);
  });
  add({"error_fp8", 1e-6, true}, [panels](benchmark::State& state, const Row& row) {
    error(state, row, panels, WeightFormat::kFp8Panel);
  });
}

}  // namespace stoker::bench
