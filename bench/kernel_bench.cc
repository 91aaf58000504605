// Kernels against the limits of this machine, by the rows of docs/performance.md: Google Benchmark
// is the loop around, each repetition measures a kernel and its limit by turns.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/worker_pool.h"
#include "bench/layer_rows.h"
#include "bench/limits.h"
#include "bench/rows.h"
#include "kernels/choose.h"
#include "kernels/plan.h"
#include "tensor/formats.h"
#include "tensor/panels.h"

namespace stoker::bench {
namespace {

using kernels::Isa;
using kernels::Kernels;

constexpr int64_t kBytes = int64_t{384} << 20;  // far beyond the caches
constexpr int64_t kCols = 5120;

// Random codes, none of them NaN or -0, with scales in their middle; what all rows are measured on.
class Weights {
 public:
  Weights() : data_(map_memory(kBytes + 8192)), scales_(kBytes / 1024, 60) {
    std::mt19937_64 random(1);
    for (int64_t at = 0; at < kBytes; at += 8) {
      const uint64_t value = random() & 0x7777777777777777ULL;
      std::memcpy(data_ + at, &value, sizeof value);
    }
  }

  const uint8_t* data() const { return data_; }
  // Puts scales where FP4 panels have them.
  void make_fp4() {
    for (int64_t at = 0; at + kFp4BlockBytes <= kBytes; at += kFp4BlockBytes)
      std::memset(data_ + at, 64, kPanelRows);
  }
  const uint8_t* scales() const { return scales_.data(); }

 private:
  uint8_t* data_;
  std::vector<uint8_t> scales_;
};

Weights& weights() {
  static Weights all;
  return all;
}

RandomPanels panels() {
  return {weights().data(), kBytes, weights().scales()};
}

double level_peak(Isa isa) {
  double done = 0;
  const double seconds = seconds_of([&] { done = loops_of(isa).fma(400); });
  return done / seconds;
}

// What one row of a matrix benchmark runs.
struct ProductRow {
  WeightFormat format = WeightFormat::kFp4Panel;
  int64_t rows = 1;
  int threads = 1;
  int64_t most_panels = 1 << 20;
};

class ProductRun {
 public:
  ProductRun(const ProductRow& row, const Kernels& kernels, const uint8_t* data)
      : row_(row), kernels_(kernels), data_(data), one_(packed_size(row.format, 1, kCols)) {
    num_panels_ = std::min(kBytes / one_.data, row.most_panels);
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<size_t>(row.rows * kCols));
    for (float& value : x) value = normal(random);
    arranged_.resize(static_cast<size_t>(
        kernels::arranged_floats(row.format, kernels.bf16_pairs, row.rows, kCols)));
    for (int64_t r = 0; r < row.rows; ++r) {
      kernels::arrange(row.format, kernels.bf16_pairs, x.data() + r * kCols, kCols, r, row.rows,
                       arranged_.data());
    }
    y_.resize(static_cast<size_t>(row.threads * row.rows * kPanelRows));
  }

  int64_t bytes() const { return num_panels_ * one_.data; }
  double flops() const {
    return 2.0 * static_cast<double>(num_panels_ * kPanelRows * kCols * row_.rows);
  }
  double seconds(WorkerPool& pool) {
    return seconds_of([&] {
      constexpr int64_t kTogether = 4;  // as in kernels/products.cc
      pool.run((num_panels_ + kTogether - 1) / kTogether, [&](int64_t piece, int worker) {
        for (int64_t panel = piece * kTogether;
             panel < std::min(num_panels_, (piece + 1) * kTogether); ++panel)
          kernels_.panel({row_.format,
                          data_ + panel * one_.data,
                          weights().scales(),
                          kCols,
                          {arranged_.data(), row_.rows, row_.rows, nullptr},
                          y_.data() + worker * row_.rows * kPanelRows,
                          kPanelRows,
                          kPanelRows});
      });
    });
  }

 private:
  const ProductRow row_;
  const Kernels& kernels_;
  const uint8_t* data_;
  const PackedSize one_;
  int64_t num_panels_ = 0;
  std::vector<float> arranged_;
  std::vector<float> y_;
};

// A product of the planned level as a share of its limit: reading the weights, or multiplying.
void product(benchmark::State& state, const Row& row, const ProductRow& what) {
  const FlushDenormals flush;
  WorkerPool pool(what.threads);
  const kernels::KernelPlan plan = *kernels::default_plan();
  const Kernels& kernels = plan.product(what.format, what.rows);
  ProductRun run(what, kernels, weights().data());
  std::string with;
  std::vector<double> ratios;
  std::vector<double> reads;
  for (auto _ : state) {
    run.seconds(pool);
    for (int pair = 0; pair < kPairs; ++pair) {
      const double read_s = read_seconds(pool, weights().data(), run.bytes());
      const double product_s = run.flops() / peak(pool, with);
      const double found_s = run.seconds(pool);
      reads.push_back(read_s);
      ratios.push_back(std::max(read_s, product_s) / found_s);
    }
  }
  // Where multiplying is the limit, reads do not matter.
  const bool by_reading = median(reads) > run.flops() / peak(pool, with);
  report(state, row, ratios, by_reading ? reads : std::vector<double>(),
         std::string(kernels::isa_name(kernels.isa)) + " against " +
             (by_reading ? "a plain read, " + rate(static_cast<double>(run.bytes()) / median(reads))
                         : with + ", " + rate(peak(pool, with))));
}

// AVX2 with many rows, against its own FMA.
void avx2_many_rows(benchmark::State& state, const Row& row, int64_t rows) {
  const FlushDenormals flush;
  WorkerPool pool(1);
  ProductRun run({WeightFormat::kFp4Panel, rows, 1, 24}, kernels::kernels_of(Isa::kAvx2),
                 weights().data());
  std::vector<double> ratios;
  for (auto _ : state) {
    for (int pair = 0; pair < kPairs; ++pair)
      ratios.push_back(run.flops() / level_peak(Isa::kAvx2) / run.seconds(pool));
  }
  report(state, row, ratios, {}, "avx2 against its FMA");
}

// Bytes of weights a cycle would need the clock; as shares of a plain read instead.
void level_decode(benchmark::State& state, const Row& row, Isa isa, WeightFormat format) {
  const std::vector<Isa> usable = kernels::usable_levels();
  if (std::find(usable.begin(), usable.end(), isa) == usable.end()) {
    state.SkipWithError("this processor lacks the level");
    return;
  }
  const FlushDenormals flush;
  WorkerPool pool(1);
  ProductRun run({format, 1, 1, 1 << 20}, kernels::kernels_of(isa), weights().data());
  std::vector<double> ratios;
  std::vector<double> reads;
  for (auto _ : state) {
    for (int pair = 0; pair < kPairs; ++pair) {
      reads.push_back(read_seconds(pool, weights().data(), run.bytes()));
      ratios.push_back(reads.back() / run.seconds(pool));
    }
  }
  report(state, row, ratios, reads, std::string(kernels::isa_name(isa)) + " against a plain read");
}

// Bytes of weights a cycle, of panels that stay in the second-level cache.
void level_cached(benchmark::State& state, const Row& row, Isa isa, WeightFormat format) {
  constexpr int kPasses = 200;
  constexpr int64_t kCached = int64_t{400} << 10;
  const FlushDenormals flush;
  WorkerPool pool(1);
  const int64_t panels = kCached / packed_size(format, 1, kCols).data;
  ProductRun run({format, 1, 1, panels}, kernels::kernels_of(isa), weights().data());
  std::vector<double> found;
  for (auto _ : state) {
    run.seconds(pool);
    for (int pair = 0; pair < kPairs; ++pair) {
      double seconds = 0;
      for (int pass = 0; pass < kPasses; ++pass) seconds += run.seconds(pool);
      found.push_back(static_cast<double>(kPasses * run.bytes()) / seconds / cycles_per_second());
    }
  }
  report(state, row, found, {}, "bytes a cycle, " + std::string(kernels::isa_name(isa)));
}

// Records of random vectors, one after the other, as blocks of a sequence have them.
struct Records {
  Records(int64_t n, int64_t dim, int64_t bytes, void (*encode)(const float*, int64_t, uint8_t*))
      : data(static_cast<size_t>(n * bytes)) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<size_t>(dim));
    for (int64_t i = 0; i < n; ++i) {
      for (float& value : x) value = normal(random);
      encode(x.data(), dim, data.data() + i * bytes);
      places.push_back(data.data() + i * bytes);
    }
  }

  std::vector<uint8_t> data;
  std::vector<const uint8_t*> places;
};

// `flops` operations of a level's kernel on one thread, by turns with the fastest product loop.
void against_peak(benchmark::State& state, const Row& row, const Kernels& kernels, double flops,
                  const std::function<void()>& work) {
  WorkerPool pool(1);
  std::string with;
  std::vector<double> ratios;
  for (auto _ : state) {
    for (int pair = 0; pair < kPairs; ++pair) {
      const double limit_s = flops / peak(pool, with);
      ratios.push_back(limit_s / seconds_of(work));
    }
  }
  report(state, row, ratios, {}, std::string(kernels::isa_name(kernels.isa)) + " against " + with);
}

void attention(benchmark::State& state, const Row& row) {
  constexpr int32_t kHeads = 64;
  constexpr int64_t kDim = 512;
  const FlushDenormals flush;
  const Kernels& kernels = *kernels::default_plan()->rest;
  const Records window(128, kDim, window_record_bytes(kDim), encode_window);
  const Records latents(512, kDim, latent_record_bytes(kDim), encode_latent);
  std::vector<float> q(kHeads * kDim, 0.015625F);
  std::vector<float> sink(kHeads, 0.5F);
  std::vector<float> out(q.size());
  std::vector<float> scratch(
      static_cast<size_t>(kernels::attend_scratch_floats(kHeads, kDim, 640)));
  const kernels::AttendJob job{
      q.data(),       {window.places.data(), 128, latents.places.data(), 512},
      sink.data(),    kHeads,
      kDim,           0.044F,
      scratch.data(), out.data()};
  against_peak(state, row, kernels, 4.0 * kHeads * kDim * 640 * 50, [&] {
    for (int i = 0; i < 50; ++i) kernels.attend(job);
  });
}

void index_scores(benchmark::State& state, const Row& row) {
  constexpr int32_t kHeads = 32;
  constexpr int64_t kDim = 128;
  constexpr int64_t kKeys = 65536;
  const FlushDenormals flush;
  const Kernels& kernels = *kernels::default_plan()->index_scores;
  const Records keys(kKeys, kDim, index_record_bytes(kDim), encode_index);
  std::vector<float> q(static_cast<size_t>(kernels::arranged_floats(
                           WeightFormat::kFp4Panel, kernels.bf16_pairs, kHeads, kDim)),
                       0.5F);
  std::vector<float> head_weights(kHeads, 0.25F);
  std::vector<float> scratch(static_cast<size_t>(kernels::index_scratch_floats(1, kHeads, kDim)));
  std::vector<float> scores(kKeys);
  const kernels::IndexJob job{{q.data(), kHeads, kHeads, nullptr},
                              head_weights.data(),
                              1,
                              kHeads,
                              kDim,
                              keys.places.data(),
                              kKeys,
                              scratch.data(),
                              scores.data(),
                              kKeys};
  against_peak(state, row, kernels, 2.0 * kHeads * kDim * kKeys,
               [&] { kernels.index_scores(job); });
}

// 512 of a million, to reading the scores; `rising` the worst order, in milliseconds.
void choice(benchmark::State& state, const Row& row, bool rising) {
  constexpr int64_t kScores = 1 << 20;
  const Kernels& kernels = *kernels::default_plan()->rest;
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  std::vector<float> scores;
  for (int64_t i = 0; i < kScores; ++i)
    scores.push_back(rising ? static_cast<float>(i) : normal(random));
  std::vector<float> values(static_cast<size_t>(kernels::choice_room(512)));
  std::vector<int32_t> list(values.size());
  std::vector<int32_t> picked(values.size());
  std::vector<int32_t> out(512);
  const kernels::ChoiceScratch scratch{values.data(), list.data(), picked.data()};
  WorkerPool pool(1);
  std::vector<double> found;
  for (auto _ : state) {
    for (int pair = 0; pair < kPairs; ++pair) {
      const double read_s = read_seconds(pool, reinterpret_cast<const uint8_t*>(scores.data()),
                                         kScores * static_cast<int64_t>(sizeof(float)));
      const double seconds = seconds_of(
          [&] { kernels::choose_best(kernels, scores.data(), kScores, 512, scratch, out.data()); });
      found.push_back(rising ? seconds * 1e3 : seconds / read_s);
    }
  }
  report(state, row, found, {}, rising ? "ms" : "times a plain read of the scores");
}

// The same kernel on a mapped file that is in the page cache.
void mapped(benchmark::State& state, const Row& row) {
  constexpr int64_t kMapped = int64_t{256} << 20;
  char path[] = "/var/tmp/stoker_bench_XXXXXX";
  const int fd = ::mkstemp(path);
  CHECK(fd >= 0 && ::write(fd, weights().data(), kMapped) == kMapped, "/var/tmp has 256 MiB");
  ::unlink(path);
  void* file = ::mmap(nullptr, kMapped, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  CHECK(file != MAP_FAILED, "a file can be mapped");
  const FlushDenormals flush;
  WorkerPool pool(1);
  const Kernels& kernels = kernels::default_plan()->product(WeightFormat::kFp4Panel, 1);
  const ProductRow what{WeightFormat::kFp4Panel, 1, 1,
                        kMapped / packed_size(WeightFormat::kFp4Panel, 1, kCols).data - 1};
  ProductRun anonymous(what, kernels, weights().data());
  ProductRun in_file(what, kernels, static_cast<const uint8_t*>(file));
  std::vector<double> ratios;
  for (auto _ : state) {
    in_file.seconds(pool);
    for (int pair = 0; pair < kPairs; ++pair)
      ratios.push_back(anonymous.seconds(pool) / in_file.seconds(pool));
  }
  ::munmap(file, kMapped);
  ::close(fd);
  report(state, row, ratios, {}, "to anonymous memory");
}

void add_products() {
  struct Decode {
    const char* name;
    WeightFormat format;
    int64_t rows;
    double target;
  };
  const WeightFormat fp4 = WeightFormat::kFp4Panel;
  const WeightFormat fp8 = WeightFormat::kFp8Panel;
  const WeightFormat bf16 = WeightFormat::kBf16Panel;
  for (const Decode& at : {Decode{"fp4", fp4, 1, 0.90},
                           {"fp4", fp4, 2, 0.85},
                           {"fp4", fp4, 4, 0.85},
                           {"fp8", fp8, 1, 0.88},
                           {"fp8", fp8, 2, 0.88},
                           {"fp8", fp8, 4, 0.88},
                           {"fp8", fp8, 8, 0.80},
                           {"bf16", bf16, 1, 0.92},
                           {"bf16", bf16, 4, 0.92}}) {
    for (const int threads : {1, 2}) {
      add({std::string("decode_") + at.name + "/rows:" + std::to_string(at.rows) +
               "/threads:" + std::to_string(threads),
           at.target},
          [at, threads](benchmark::State& state, const Row& row) {
            product(state, row, {at.format, at.rows, threads});
          });
    }
  }
  for (const Decode& at : {Decode{"fp4", fp4, 8, 0.66},
                           {"fp4", fp4, 16, 0.74},
                           {"fp4", fp4, 64, 0.82},
                           {"fp4", fp4, 512, 0.82},
                           {"fp8", fp8, 8, 0.60},
                           {"fp8", fp8, 16, 0.66},
                           {"fp8", fp8, 64, 0.76},
                           {"fp8", fp8, 512, 0.76}}) {
    add({std::string("many_") + at.name + "/rows:" + std::to_string(at.rows), at.target},
        [at](benchmark::State& state, const Row& row) {
          product(state, row, {at.format, at.rows, 1, std::max<int64_t>(24, 2048 / at.rows)});
        });
  }
}

void add_all() {
  add_products();
  add({"avx2_many_fp4/rows:48", 0.80},
      [](benchmark::State& state, const Row& row) { avx2_many_rows(state, row, 48); });
  struct Level {
    const char* name;
    Isa isa;
    WeightFormat format;
    double target;
  };
  for (const Level& at : {Level{"avx512_decode_fp4", Isa::kAvx512, WeightFormat::kFp4Panel, 0.68},
                          {"avx512_decode_fp8", Isa::kAvx512, WeightFormat::kFp8Panel, 0.85}}) {
    add({at.name, at.target}, [at](benchmark::State& state, const Row& row) {
      level_decode(state, row, at.isa, at.format);
    });
  }
  for (const Level& at : {Level{"avx2_cached_fp4", Isa::kAvx2, WeightFormat::kFp4Panel, 2.4},
                          {"avx2_cached_fp8", Isa::kAvx2, WeightFormat::kFp8Panel, 4.8}}) {
    add({at.name, at.target}, [at](benchmark::State& state, const Row& row) {
      level_cached(state, row, at.isa, at.format);
    });
  }
  add({"attention_640_rows", 0.70}, attention);
  add({"index_scores_64k", 0.85}, index_scores);
  add({"choose_512_of_1m/random", 5, true},
      [](benchmark::State& state, const Row& row) { choice(state, row, false); });
  add({"choose_512_of_1m/rising_ms", 1, true},
      [](benchmark::State& state, const Row& row) { choice(state, row, true); });
  add({"mapped_file", 0.97}, mapped);
  add_layer_rows(panels());
}

}  // namespace

}  // namespace stoker::bench

int main(int argc, char** argv) {
  stoker::bench::weights().make_fp4();
  stoker::bench::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
