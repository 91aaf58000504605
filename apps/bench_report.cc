#include "bench_report.h"

#include <array>
#include <cstdio>
#include <utility>

#include "json_text.h"
#include "stoker/version.h"

namespace stoker {
namespace {

constexpr int kCountWidth = 8;
constexpr int kNumberWidth = 10;

// As many cores may be busy with something else before it is told.
constexpr double kQuietCores = 0.1;

std::string cell(const std::string& text, int width) {
  const auto size = static_cast<size_t>(width);
  return text.size() < size ? std::string(size - text.size(), ' ') + text : " " + text;
}

std::string decimal(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

// The numbers of a spread in the order of JSON and CSV.
std::array<std::pair<const char*, double>, 4> named(const Spread& spread) {
  return {
      {{"min", spread.min}, {"median", spread.median}, {"p90", spread.p90}, {"max", spread.max}}};
}

std::string machine_json(const BenchReport& report) {
  return JsonObject()
      .add("cpu", json_string(report.machine.cpu))
      .add("logical_cores", std::to_string(report.machine.num_logical_cores))
      .add("other_cores", report.other_cores ? json_number(*report.other_cores) : "null")
      .text();
}

std::string model_json(const ModelInfo& model) {
  return JsonObject()
      .add("name", json_string(model.name))
      .add("path", json_string(model.path))
      .add("vocab_size", std::to_string(model.vocab_size))
      .add("max_context_tokens", std::to_string(model.max_context_tokens))
      .text();
}

// The number drafted at a time where one was asked for.
std::string drafts_json(const SpeculationOptions& options) {
  if (options.mode == Speculation::kOff) return json_string("off");
  if (options.mode == Speculation::kAuto) return json_string("auto");
  JsonObject object;
  if (options.num_speculative_tokens)
    object.add("num_speculative_tokens", std::to_string(*options.num_speculative_tokens));
  return object
      .add("enable_adaptive_verification", options.enable_adaptive_verification ? "true" : "false")
      .text();
}

std::string options_json(const BenchPlan& plan, const EngineOptions& options) {
  constexpr const char* kReplays[] = {"off", "exact", "compact"};  // in the order of BoundedReplay
  return JsonObject()
      .add("warmup", std::to_string(plan.warmup))
      .add("repetitions", std::to_string(plan.repetitions))
      .add("seed", std::to_string(plan.seed))
      .add("threads", std::to_string(options.num_threads))
      .add("max_num_seqs", std::to_string(options.max_num_seqs))
      .add("max_num_batched_tokens", std::to_string(options.max_num_batched_tokens))
      .add("kv_budget_bytes", std::to_string(options.kv_budget_bytes))
      .add("drafts", drafts_json(options.speculation))
      .add("prefix_caching", options.prefix_caching ? "true" : "false")
      .add("bounded_replay", json_string(kReplays[static_cast<size_t>(options.bounded_replay)]))
      .text();
}

std::string spread_json(const std::optional<Spread>& spread) {
  if (!spread) return "null";
  JsonObject object;
  for (const auto& [name, value] : named(*spread)) object.add(name, json_number(value));
  return object.text();
}

std::string result_json(const BenchResult& result) {
  JsonObject object;
  object.add("batch", std::to_string(result.sizes.batch))
      .add("prompt_tokens", std::to_string(result.sizes.prompt_tokens))
      .add("output_tokens", std::to_string(result.sizes.output_tokens))
      .add("requests", std::to_string(result.num_requests));
  for (const BenchMeasure& measure : result.measures)
    object.add(measure.name, spread_json(measure.spread));
  return object.text();
}

std::string csv_header(const BenchResult& result) {
  std::string line = "batch,prompt_tokens,output_tokens,requests";
  for (const BenchMeasure& measure : result.measures) {
    for (const auto& [name, value] : named({})) line += "," + measure.name + "_" + name;
  }
  return line + "\n";
}

std::string csv_line(const BenchResult& result) {
  std::string line =
      std::to_string(result.sizes.batch) + "," + std::to_string(result.sizes.prompt_tokens) + "," +
      std::to_string(result.sizes.output_tokens) + "," + std::to_string(result.num_requests);
  for (const BenchMeasure& measure : result.measures) {
    for (const auto& [name, value] : named(measure.spread.value_or(Spread())))
      line += "," + (measure.spread ? json_number(value) : "");
  }
  return line + "\n";
}

}  // namespace

std::string bench_heading(const BenchPlan& plan, const ModelInfo& model, const Machine& machine) {
  std::string text = model.name + " on " + machine.cpu + ", " +
                     std::to_string(machine.num_logical_cores) + " logical cores; " +
                     std::to_string(plan.repetitions) + " repetitions after " +
                     std::to_string(plan.warmup) + " to warm up\n\n";
  const std::string counts = cell("", 3 * kCountWidth);
  const bool is_latency = plan.kind == BenchKind::kLatency;
  text += is_latency ? counts + cell("first token, ms", 3 * kNumberWidth) +
                           cell("later tokens, ms each", 3 * kNumberWidth)
                     : counts + cell("tokens a second", 3 * kNumberWidth);
  text += "\n";
  for (const char* name : {"batch", "prompt", "output"}) text += cell(name, kCountWidth);
  const std::vector<const char*> columns =
      is_latency ? std::vector{"median", "p90", "min", "median", "p90", "min"}
                 : std::vector{"prompt", "output", "total"};
  for (const char* name : columns) text += cell(name, kNumberWidth);
  return text + "\n";
}

std::string bench_row(BenchKind kind, const BenchResult& result) {
  std::string text;
  for (const int32_t count :
       {result.sizes.batch, result.sizes.prompt_tokens, result.sizes.output_tokens})
    text += cell(std::to_string(count), kCountWidth);
  for (const BenchMeasure& measure : result.measures) {
    const std::optional<Spread>& spread = measure.spread;
    if (kind == BenchKind::kThroughput) {
      text += cell(spread ? decimal(spread->median, 1) : "-", kNumberWidth);
      continue;
    }
    for (double Spread::*number : {&Spread::median, &Spread::p90, &Spread::min})
      text += cell(spread ? decimal((*spread).*number * 1000, 2) : "-", kNumberWidth);
  }
  return text + "\n";
}

std::string bench_notes(const BenchReport& report) {
  if (report.other_cores.value_or(0) <= kQuietCores) return "";
  return "\nother processes kept " + decimal(*report.other_cores, 1) +
         " cores busy meanwhile: these figures are not the machine's\n";
}

std::string bench_json(const BenchReport& report) {
  std::vector<std::string> items;
  items.reserve(report.results.size());
  for (const BenchResult& result : report.results) items.push_back(result_json(result));
  const bool is_latency = report.plan.kind == BenchKind::kLatency;
  return JsonObject()
             .add("benchmark", json_string(is_latency ? "latency" : "throughput"))
             .add("version", json_string(version()))
             .add("machine", machine_json(report))
             .add("model", model_json(report.model))
             .add("options", options_json(report.plan, report.options))
             .add("results", json_array(items))
             .text() +
         "\n";
}

std::string bench_csv(const std::vector<BenchResult>& results) {
  std::string text = results.empty() ? "" : csv_header(results.front());
  for (const BenchResult& result : results) text += csv_line(result);
  return text;
}

}  // namespace stoker
