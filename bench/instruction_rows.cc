// What bench/instructions.py counts the instructions of: instruction_rows without a name prints the
// names of the rows, with one it runs that row once, with the kernels of AVX2 (valgrind knows no
// more), and prints how many units of work that was. What is to be counted happens in
// stoker_counted.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include "base/worker_pool.h"
#include "kernels/choose.h"
#include "kernels/plan.h"
#include "kernels/products.h"
#include "tensor/formats.h"
#include "tensor/panels.h"

extern "C" {
__attribute__((noinline)) void stoker_counted(const std::function<void()>& work);
void stoker_counted(const std::function<void()>& work) {
  work();
}
}

namespace stoker::bench {
namespace {

using kernels::Kernels;

constexpr int64_t kCols = 5120;

const Kernels& avx2() {
  return kernels::kernels_of(kernels::Isa::kAvx2);
}

std::vector<float> normal_floats(int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(count));
  for (float& value : out) value = normal(random);
  return out;
}

// Panels of a format, one row or more. The units are bytes of weights with one row, else
// multiplications.
int64_t product(WeightFormat format, int64_t rows) {
  const int64_t num_panels = rows == 1 ? 4 : 1;
  const PackedSize one = packed_size(format, 1, kCols);
  // Any codes and scales: no path depends on them.
  std::vector<uint8_t> weights(static_cast<size_t>(num_panels * one.data + 8192), 0x35);
  const std::vector<uint8_t> scales(static_cast<size_t>(one.scale + 64), 64);
  const std::vector<float> x = normal_floats(rows * kCols);
  std::vector<float> arranged(
      static_cast<size_t>(kernels::arranged_floats(format, avx2().bf16_pairs, rows, kCols)));
  for (int64_t r = 0; r < rows; ++r)
    kernels::arrange(format, avx2().bf16_pairs, x.data() + r * kCols, kCols, r, rows,
                     arranged.data());
  std::vector<float> y(static_cast<size_t>(rows * kPanelRows));
  stoker_counted([&] {
    for (int64_t panel = 0; panel < num_panels; ++panel)
      avx2().panel({format,
                    weights.data() + panel * one.data,
                    scales.data(),
                    kCols,
                    {arranged.data(), rows, rows, nullptr},
                    y.data(),
                    kPanelRows,
                    kPanelRows});
  });
  return rows == 1 ? num_panels * one.data : num_panels * kPanelRows * kCols * rows;
}

// Records of random vectors, one after the other.
struct MadeRecords {
  MadeRecords(int64_t n, int64_t dim, int64_t bytes,
              void (*encode)(const float*, int64_t, uint8_t*))
      : data(static_cast<size_t>(n * bytes)) {
    const std::vector<float> x = normal_floats(dim);
    for (int64_t i = 0; i < n; ++i) {
      encode(x.data(), dim, data.data() + i * bytes);
      places.push_back(data.data() + i * bytes);
    }
  }

  std::vector<uint8_t> data;
  std::vector<const uint8_t*> places;
};

// A row with a full window and 512 latents. The units are multiplications.
int64_t attention() {
  constexpr int32_t kHeads = 64;
  constexpr int64_t kDim = 512;
  constexpr int64_t kKeys = 640;
  const MadeRecords window(128, kDim, window_record_bytes(kDim), encode_window);
  const MadeRecords latents(kKeys - 128, kDim, latent_record_bytes(kDim), encode_latent);
  const std::vector<float> q = normal_floats(kHeads * kDim);
  const std::vector<float> sink(kHeads, 0.5F);
  std::vector<float> out(q.size());
  std::vector<float> scratch(
      static_cast<size_t>(kernels::attend_scratch_floats(kHeads, kDim, kKeys)));
  stoker_counted([&] {
    avx2().attend({q.data(),
                   {window.places.data(), 128, latents.places.data(), kKeys - 128},
                   sink.data(),
                   kHeads,
                   kDim,
                   0.044F,
                   scratch.data(),
                   out.data()});
  });
  return 2 * kHeads * kDim * kKeys;
}

// One token's scores of 4,096 keys. The units are multiplications.
int64_t index_scores() {
  constexpr int32_t kHeads = 32;
  constexpr int64_t kDim = 128;
  constexpr int64_t kKeys = 4096;
  const MadeRecords keys(kKeys, kDim, index_record_bytes(kDim), encode_index);
  const std::vector<float> q(static_cast<size_t>(kernels::arranged_floats(
                                 WeightFormat::kFp4Panel, avx2().bf16_pairs, kHeads, kDim)),
                             0.5F);
  const std::vector<float> head_weights(kHeads, 0.25F);
  std::vector<float> scratch(static_cast<size_t>(kernels::index_scratch_floats(1, kHeads, kDim)));
  std::vector<float> scores(kKeys);
  stoker_counted([&] {
    avx2().index_scores({{q.data(), kHeads, kHeads, nullptr},
                         head_weights.data(),
                         1,
                         kHeads,
                         kDim,
                         keys.places.data(),
                         kKeys,
                         scratch.data(),
                         scores.data(),
                         kKeys});
  });
  return kHeads * kDim * kKeys;
}

// The best 512 of 262,144 scores; rising is the worst order. The units are scores.
int64_t choice(bool rising) {
  constexpr int64_t kScores = 1 << 18;
  std::vector<float> scores = normal_floats(kScores);
  if (rising) std::ranges::sort(scores);
  std::vector<float> values(static_cast<size_t>(kernels::choice_room(512)));
  std::vector<int32_t> list(values.size());
  std::vector<int32_t> picked(values.size());
  std::vector<int32_t> out(512);
  stoker_counted([&] {
    kernels::choose_best(avx2(), scores.data(), kScores, 512,
                         {values.data(), list.data(), picked.data()}, out.data());
  });
  return kScores;
}

struct InstructionRow {
  const char* name;
  std::function<int64_t()> run;  // gives its units
};

std::vector<InstructionRow> instruction_rows() {
  return {{"product_fp4/rows:1", [] { return product(WeightFormat::kFp4Panel, 1); }},
          {"product_fp8/rows:1", [] { return product(WeightFormat::kFp8Panel, 1); }},
          {"product_bf16/rows:1", [] { return product(WeightFormat::kBf16Panel, 1); }},
          {"product_fp4/rows:48", [] { return product(WeightFormat::kFp4Panel, 48); }},
          {"product_fp8/rows:48", [] { return product(WeightFormat::kFp8Panel, 48); }},
          {"attention_640_rows", attention},
          {"index_scores_4k", index_scores},
          {"choose_512_of_256k/random", [] { return choice(false); }},
          {"choose_512_of_256k/rising", [] { return choice(true); }}};
}

}  // namespace
}  // namespace stoker::bench

int main(int argc, char** argv) {
  const stoker::FlushDenormals flush;
  for (const auto& row : stoker::bench::instruction_rows()) {
    if (argc == 1) std::printf("%s\n", row.name);
    if (argc == 2 && std::string_view(argv[1]) == row.name) {
      std::printf("%lld\n", static_cast<long long>(row.run()));
      return 0;
    }
  }
  return argc == 1 ? 0 : 2;
}
