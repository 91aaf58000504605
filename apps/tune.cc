// stoker tune: which kernel computes what, measured on this machine and kept for the next starts.
#include "stoker/tune.h"

#include <cinttypes>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "common.h"
#include "loading.h"
#include "output.h"

namespace stoker {
namespace {

constexpr const char* kTuneExamples =
    "  stoker tune\n"
    "  stoker tune --threads 8 --seconds 10\n"
    "  stoker tune --show\n";

std::string padded(const char* format, const std::string& text) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, text.c_str());
  return buffer;
}

std::string number_text(const char* format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

int64_t time_of(const PlanChoice& choice, const std::string& level) {
  for (const PlanChoice::Level& at : choice.measured) {
    if (at.name == level) return at.ns;
  }
  return 0;
}

/// Levels that were measured for any choice, in their order.
std::vector<std::string> levels_of(const TunedPlan& plan) {
  std::vector<std::string> levels;
  for (const PlanChoice& choice : plan.choices) {
    if (choice.measured.size() <= levels.size()) continue;
    levels.clear();
    for (const PlanChoice::Level& at : choice.measured) levels.push_back(at.name);
  }
  return levels;
}

std::string row_text(const PlanChoice& choice, const std::vector<std::string>& levels) {
  const int64_t chosen = time_of(choice, choice.level);
  std::string row = padded("%-14s", choice.operation);
  row += padded("%6s", choice.rows == 0 ? "" : std::to_string(choice.rows));
  row += padded("  %-10s", choice.level);
  row += padded("%10s",
                chosen == 0 ? "built in" : number_text("%.1f", static_cast<double>(chosen) / 1000));
  for (const std::string& level : levels) {
    const int64_t ns = time_of(choice, level);
    row += padded("%12s",
                  ns == 0 || chosen == 0
                      ? "-"
                      : number_text("%.2f", static_cast<double>(ns) / static_cast<double>(chosen)));
  }
  return row + "\n";
}

std::string table_of(const TunedPlan& plan) {
  const std::vector<std::string> levels = levels_of(plan);
  std::string text = plan.path + "\n" + std::to_string(plan.num_threads) +
                     " threads; times in microseconds, and of each level as a multiple of the "
                     "chosen one's\n\n";
  std::string head =
      padded("%-14s", "operation") + padded("%6s", "rows") + padded("  %-10s", "level");
  head += padded("%10s", "time");
  for (const std::string& level : levels) head += padded("%12s", level);
  text += head + "\n";
  for (const PlanChoice& choice : plan.choices) text += row_text(choice, levels);
  return text;
}

}  // namespace

int tune_command(const Arguments& arguments) {
  TuneOptions options;
  std::optional<double> seconds;
  bool show = false;
  OptionParser parser("tune",
                      "Measures which of the kernels that this processor can run is the fastest "
                      "for what, and keeps that for serve and all other commands. Best with "
                      "nothing else running. Answers do not depend on it.",
                      kTuneExamples);
  add_store_option(parser, &options.store);
  add_threads_option(parser, &options.num_threads);
  parser.option("--seconds", "S", &seconds, "Ends after so long; the rest stays built in [5]");
  parser.flag("--show", &show, "Measure nothing, print what is kept");
  if (const auto code = parser.parse(arguments)) return *code;
  options.seconds = seconds.value_or(options.seconds);

  LoadingProgress progress;
  options.progress = [&progress](const Progress& now) { progress.update(now); };
  const Result<TunedPlan> plan = show ? kept_plan(options) : tune(options);
  if (!plan) return report(plan.error());
  Output out;
  out.write(table_of(*plan));
  const Result<void> written = out.result();
  return written ? 0 : report(written.error());
}

}  // namespace stoker
