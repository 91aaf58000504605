// How `stoker bench` tells what it measured: a table for people, JSON and CSV for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench_machine.h"
#include "bench_run.h"
#include "stoker/engine.h"

namespace stoker {

/// The lines above the rows of the table: on what, then the columns.
std::string bench_heading(const BenchPlan& plan, const ModelInfo& model, const Machine& machine);

/// One line of it; times in milliseconds.
std::string bench_row(BenchKind kind, const BenchResult& result);

/// What was measured, where, and what came of it.
struct BenchReport {
  BenchPlan plan;
  EngineOptions options;
  ModelInfo model;
  Machine machine;
  std::optional<double> other_cores;  ///< OtherLoad's, while it was measured
  std::vector<BenchResult> results;
};

/// What a reader of the table must know; may be empty.
std::string bench_notes(const BenchReport& report);

/// One object: benchmark, version, machine, model, options, results. Times in seconds.
std::string bench_json(const BenchReport& report);

/// A line with the names of the columns, and one for each result. Times in seconds.
std::string bench_csv(const std::vector<BenchResult>& results);

}  // namespace stoker
