// How `stoker bench` tells what it measured: a table for people, JSON and CSV for programs.
#pragma once

#include <string>
#include <vector>

#include "bench_run.h"
#include "stoker/engine.h"

namespace stoker {

/// The processor as the system names it, and how many of its threads there are.
struct Machine {
  std::string cpu;  ///< "unknown" where the system does not say
  unsigned num_logical_cores = 0;
};
Machine this_machine();

/// The lines above the rows of the table: on what, then the columns.
std::string bench_heading(const BenchPlan& plan, const ModelInfo& model, const Machine& machine);

/// One line of it; times in milliseconds.
std::string bench_row(BenchKind kind, const BenchResult& result);

/// One object: benchmark, version, machine, model, options, results. Times in seconds.
std::string bench_json(const BenchPlan& plan, const EngineOptions& options, const ModelInfo& model,
                       const Machine& machine, const std::vector<BenchResult>& results);

/// A line with the names of the columns, and one for each result. Times in seconds.
std::string bench_csv(const std::vector<BenchResult>& results);

}  // namespace stoker
