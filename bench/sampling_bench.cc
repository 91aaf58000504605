// What the choice of a token costs at the released vocabulary, on one core: rows of
// docs/performance.md, in microseconds, and beside them the plain twin and a read of the row.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "bench/rows.h"
#include "kernels/plan.h"
#include "sampling/logprobs.h"
#include "sampling/plain.h"
#include "sampling/sampler.h"

namespace stoker::bench {
namespace {

using sampling::Params;
using sampling::Sampler;
using sampling::Scratch;

constexpr size_t kVocab = 129280;
constexpr int kRows = 64;  // of logits, each another, so that none is in a cache by luck
constexpr int64_t kAnswer = 2000;

enum class Shape {
  kPeaked,  ///< one id holds nearly all mass; the others are 15 below it, with a deviation of 3
  kSteep,   ///< the same, 35 below it
  kNormal,  ///< deviation 3: some hundred ids hold the mass
  kFlat,    ///< all within a half
};

std::vector<std::vector<float>> rows_of(Shape shape) {
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal(0, shape == Shape::kFlat ? 0.1F : 3.0F);
  std::vector<std::vector<float>> rows(kRows, std::vector<float>(kVocab));
  for (auto& row : rows) {
    for (float& x : row) x = normal(random);
    if (shape == Shape::kPeaked) row[random() % kVocab] = 15;
    if (shape == Shape::kSteep) row[random() % kVocab] = 35;
  }
  return rows;
}

// Of this thread alone: what others do costs the caches and no more.
double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <class Work>
double microseconds_a_row(const Work& work) {
  const double begin = thread_seconds();
  for (int i = 0; i < kRows; ++i) work(i);
  return (thread_seconds() - begin) / kRows * 1e6;
}

// The token ids of a long answer, most of them different.
std::vector<int32_t> answer() {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < kAnswer; ++i)
    ids.push_back(static_cast<int32_t>(i * 2654435761 % kVocab));
  return ids;
}

Scratch& scratch() {
  static Scratch one(kernels::default_plan()->rest->isa);
  return one;
}

std::string note_of(double plain_us, const std::vector<std::vector<float>>& rows) {
  WorkerPool pool(1);
  std::vector<double> reads;
  for (const auto& row : rows) {
    reads.push_back(1e6 * read_seconds(pool, reinterpret_cast<const uint8_t*>(row.data()),
                                       static_cast<int64_t>(kVocab * sizeof(float))));
  }
  std::array<char, 160> text{};
  std::snprintf(
      text.data(), text.size(), "us a row, %s; %s%.0f to read it",
      std::string(kernels::isa_name(kernels::default_plan()->rest->isa)).c_str(),
      plain_us > 0 ? (std::to_string(std::lround(plain_us)) + " by the plain twin, ").c_str() : "",
      median(reads));
  return text.data();
}

void choice(benchmark::State& state, const Row& row, Shape shape, const Params& params) {
  const auto rows = rows_of(shape);
  Sampler sampler(params, 11, std::vector<int32_t>{1, 2, 3});
  for (const int32_t id : answer()) sampler.accept(id);
  int64_t sum = 0;
  const auto draw = [&](int i) {
    sum += *sampler.draw(rows[static_cast<size_t>(i)], {}, scratch());
  };
  std::vector<double> found;
  for (auto _ : state) {
    microseconds_a_row(draw);
    for (int pair = 0; pair < kPairs; ++pair) found.push_back(microseconds_a_row(draw));
  }
  const double begin = thread_seconds();
  sum += sampling::plain::sample(rows[0], {11, 0}, params);
  const double plain_us = (thread_seconds() - begin) * 1e6;
  CHECK(sum > 0, "something was chosen");
  report(state, row, found, {}, note_of(plain_us, rows));
}

void logprobs(benchmark::State& state, const Row& row, int64_t num_top) {
  const auto rows = rows_of(Shape::kNormal);
  float sum = 0;
  const auto work = [&](int i) {
    sum += sampling::logprobs_of(rows[static_cast<size_t>(i)], i, num_top, scratch())->logprob;
  };
  std::vector<double> found;
  for (auto _ : state) {
    microseconds_a_row(work);
    for (int pair = 0; pair < kPairs; ++pair) found.push_back(microseconds_a_row(work));
  }
  CHECK(sum < 0, "they were found");
  report(state, row, found, {}, note_of(0, rows));
}

void add_all() {
  Params plain;
  Params warm{.temperature = 0.7};
  Params greedy{.temperature = 0};
  Params top_p{.temperature = 0.7, .top_p = 0.9};
  Params all{.temperature = 0.7, .top_k = 50, .top_p = 0.9, .min_p = 0.01};
  Params penalised = top_p;
  penalised.penalties = {1.2F, 0.3F, 0.1F};
  struct Case {
    const char* name;
    Params params;
  };
  const Case cases[] = {{"greedy", greedy}, {"plain", plain}, {"temperature", warm},
                        {"top_p", top_p},   {"all", all},     {"penalties", penalised}};
  struct Shaped {
    const char* name;
    Shape shape;
    double most_us;
  };
  for (const Shaped& shaped : {Shaped{"steep", Shape::kSteep, 150},
                               {"peaked", Shape::kPeaked, 150},
                               {"normal", Shape::kNormal, 1500},
                               {"flat", Shape::kFlat, 1500}}) {
    for (const Case& one : cases) {
      add({std::string(one.name) + "/" + shaped.name, shaped.most_us, true},
          [shaped, one](benchmark::State& state, const Row& row) {
            choice(state, row, shaped.shape, one.params);
          });
    }
  }
  for (const int64_t num_top : {0, 20})
    add({"logprobs/top:" + std::to_string(num_top), 150, true},
        [num_top](benchmark::State& state, const Row& row) { logprobs(state, row, num_top); });
}

}  // namespace
}  // namespace stoker::bench

int main(int argc, char** argv) {
  stoker::bench::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
