// Rows of docs/performance.md: a figure of a kernel or a step beside what is wanted of it, with the
// limits of the machine measured by turns in the same process. Google Benchmark is the loop around.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/worker_pool.h"

namespace stoker::bench {

/// Turns of limit and kernel that a figure is the median of.
inline constexpr int kPairs = 7;

double seconds_of(const std::function<void()>& work);
double median(std::vector<double> values);
/// "15.2 G/s".
std::string rate(double per_second);

/// Anonymous memory that begins on a huge page, for as long as the program runs.
uint8_t* map_memory(int64_t bytes);

/// Seconds that the pool takes to read all of it, as fast as this machine does.
double read_seconds(WorkerPool& pool, const uint8_t* data, int64_t bytes);
/// Operations a second of the fastest product loop, on all threads of the pool. `with` becomes its
/// name.
double peak(WorkerPool& pool, std::string& with);

/// The clock of the core that runs it: additions a second of which each waits for the one before.
double cycles_per_second();

struct Row {
  std::string name;
  double target = 0;
  bool at_most = false;  ///< the target is a most, not a least
};

/// The row's figure is the median of `found`; where plain reads [may be empty] differ by more than
/// 15 %, it says nothing.
void report(benchmark::State& state, const Row& row, const std::vector<double>& found,
            const std::vector<double>& reads, const std::string& note);

/// One benchmark, run once.
void add(const Row& row, const std::function<void(benchmark::State&, const Row&)>& run);

}  // namespace stoker::bench
