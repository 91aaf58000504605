#include "bench/rows.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/check.h"
#include "bench/limits.h"
#include "kernels/plan.h"

namespace stoker::bench {
namespace {

using kernels::Isa;

constexpr double kMostSpread = 0.15;  // of plain reads, beyond which nothing is said

double spread(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most / *least - 1;
}

}  // namespace

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

std::string rate(double per_second) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f G/s", per_second * 1e-9);
  return text.data();
}

uint8_t* map_memory(int64_t bytes) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  void* memory = ::mmap(nullptr, static_cast<size_t>(bytes + kHugePage), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED, "there is memory for the benchmark");
  const auto place = (reinterpret_cast<uintptr_t>(memory) + kHugePage - 1) / kHugePage * kHugePage;
  auto* first = reinterpret_cast<uint8_t*>(place);
  static_cast<void>(::madvise(first, static_cast<size_t>(bytes), MADV_HUGEPAGE));
  return first;
}

double read_seconds(WorkerPool& pool, const uint8_t* data, int64_t bytes) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const LimitLoops& loops = loops_of(kernels::usable_levels().back());
  return seconds_of([&] {
    pool.run((bytes + kPiece - 1) / kPiece, [&](int64_t piece, int /*worker*/) {
      loops.read(data + piece * kPiece, std::min(kPiece, bytes - piece * kPiece));
    });
  });
}

double peak(WorkerPool& pool, std::string& with) {
  constexpr int64_t kMillions = 400;
  constexpr int64_t kPieces = 8;
  double best = 0;
  for (const Isa isa : kernels::usable_levels()) {
    const LimitLoops& loops = loops_of(isa);
    for (double (*loop)(int64_t) : {loops.fma, loops.bf16_dot}) {
      if (loop == nullptr) continue;
      std::array<double, kPieces> done{};
      const double seconds = seconds_of([&] {
        pool.run(kPieces, [&](int64_t piece, int /*worker*/) {
          done[static_cast<size_t>(piece)] = loop(kMillions);
        });
      });
      double found = 0;
      for (const double operations : done) found += operations / seconds;
      if (found <= best) continue;
      best = found;
      with = std::string(kernels::isa_name(isa)) + (loop == loops.fma ? " FMA" : " VDPBF16PS");
    }
  }
  return best;
}

double cycles_per_second() {
  constexpr int64_t kAdditions = 20'000'000;
  const double seconds = seconds_of([] {
    int64_t sum = 0;
    for (int64_t i = 0; i < kAdditions; i += 8) {
      for (int j = 0; j < 8; ++j) asm volatile("add $1, %0" : "+r"(sum));
    }
  });
  return static_cast<double>(kAdditions) / seconds;
}

void report(benchmark::State& state, const Row& row, const std::vector<double>& found,
            const std::vector<double>& reads, const std::string& note) {
  state.counters["found"] = median(found);
  state.counters["target"] = row.target;
  state.counters["at_most"] = row.at_most ? 1 : 0;
  std::string label = note;
  if (!reads.empty() && spread(reads) > kMostSpread)
    label = "skipped: plain reads differ by more than 15 %; " + note;
  state.SetLabel(label);
}

void add(const Row& row, const std::function<void(benchmark::State&, const Row&)>& run) {
  benchmark::RegisterBenchmark(row.name.c_str(), [row, run](benchmark::State& state) {
    run(state, row);
  })->Iterations(1);
}

const LimitLoops& loops_of(Isa isa) {
  constexpr std::array<const LimitLoops*, 3> kLoops = {&kAvx2Loops, &kAvx512Loops,
                                                       &kAvx512Bf16Loops};
  return *kLoops[static_cast<size_t>(isa)];
}

}  // namespace stoker::bench
