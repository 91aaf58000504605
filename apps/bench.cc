// stoker bench: how fast the whole engine is with a model on this machine.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "bench_report.h"
#include "bench_run.h"
#include "commands.h"
#include "common.h"
#include "output.h"

namespace stoker {
namespace {

constexpr const char* kBenchExamples =
    "  stoker bench latency demo\n"
    "  stoker bench latency demo --batch 1 --prompt-tokens 128,1024 --output-tokens 64\n"
    "  stoker bench throughput demo --json throughput.json --csv throughput.csv\n";

struct BenchOptions {
  std::string kind, model;
  std::optional<std::string> batch, prompt_tokens, output_tokens;
  std::optional<int32_t> warmup, repetitions;
  std::optional<uint64_t> seed;
  std::optional<std::string> json, csv;
  EngineOptions engine;
};

// A list of numbers of at least 1.
Result<std::vector<int32_t>> counts_of(const std::optional<std::string>& text,
                                       const std::string& option, std::vector<int32_t> otherwise) {
  if (!text) return otherwise;
  Result<std::vector<int32_t>> counts = parse_ids(*text, option);
  if (!counts) return counts;
  if (!counts->empty() && *std::ranges::min_element(*counts) >= 1) return counts;
  return Error{ErrorCode::kInvalidArgument,
               option + ": expected numbers of at least 1, found '" + *text + "'", ""};
}

// Every combination of the three lists.
Result<std::vector<BenchSizes>> cases_of(const BenchOptions& options) {
  auto batches = counts_of(options.batch, "--batch", {1, 4, 16, 64});
  if (!batches) return std::move(batches).error();
  auto prompts = counts_of(options.prompt_tokens, "--prompt-tokens", {128});
  if (!prompts) return std::move(prompts).error();
  auto outputs = counts_of(options.output_tokens, "--output-tokens", {32});
  if (!outputs) return std::move(outputs).error();
  std::vector<BenchSizes> cases;
  for (const int32_t prompt : *prompts) {
    for (const int32_t output : *outputs) {
      for (const int32_t batch : *batches) cases.push_back({batch, prompt, output});
    }
  }
  return cases;
}

Result<void> run_and_report(const BenchPlan& plan, const BenchOptions& options) {
  auto json = ResultFile::open(options.json);
  if (!json) return std::move(json).error();
  auto csv = ResultFile::open(options.csv);
  if (!csv) return std::move(csv).error();
  auto engine = open_engine(options.model, options.engine);
  if (!engine) return std::move(engine).error();
  LLM llm(*std::move(engine), static_cast<size_t>(options.engine.max_queue));

  BenchReport report{plan, options.engine, llm.model(), this_machine(), std::nullopt, {}};
  const OtherLoad load;
  Output out;
  auto ran = run_bench(llm, plan, [&](const BenchResult& result) {
    if (report.results.empty()) out.write(bench_heading(plan, report.model, report.machine));
    out.write(bench_row(plan.kind, result));
    report.results.push_back(result);
  });
  if (!ran) return ran;
  report.other_cores = load.cores();
  out.write(bench_notes(report));
  if (auto written = json->finish(bench_json(report)); !written) return written;
  if (auto written = csv->finish(bench_csv(report.results)); !written) return written;
  return out.result();
}

void declare(OptionParser& parser, BenchOptions* options) {
  parser.positional("KIND", &options->kind,
                    "latency: time to the first token and for each later one; throughput: tokens "
                    "a second of all requests together");
  parser.positional("MODEL", &options->model, kModelHelp);
  parser.option("--batch", "1,2,3", &options->batch, "Requests at once [1,4,16,64]");
  parser.option("--prompt-tokens", "1,2,3", &options->prompt_tokens, "Lengths of prompts [128]");
  parser.option("--output-tokens", "1,2,3", &options->output_tokens, "Lengths of answers [32]");
  parser.option("--warmup", "N", &options->warmup, "Runs of each case that are not measured [1]");
  parser.option("--repetitions", "N", &options->repetitions, "Runs that are measured [3]");
  parser.option("--seed", "N", &options->seed, "Of the random prompts and answers [0]");
  parser.option("--json", "FILE", &options->json, "Where to write machine, options and results");
  parser.option("--csv", "FILE", &options->csv, "Where to write a line for each case");
  options->engine.weights.verify = Verify::kFull;  // nothing is read beside what is measured
  add_engine_options(parser, &options->engine);
}

}  // namespace

int bench_command(const Arguments& arguments) {
  BenchOptions options;
  OptionParser parser("bench",
                      "Measures the whole engine: every combination of --batch, --prompt-tokens "
                      "and --output-tokens, with random prompts.",
                      kBenchExamples);
  declare(parser, &options);
  if (const auto code = parser.parse(arguments)) return *code;
  BenchPlan plan;
  if (options.kind != "latency" && options.kind != "throughput")
    return parser.refuse("KIND: expected latency or throughput, found '" + options.kind + "'");
  plan.kind = options.kind == "latency" ? BenchKind::kLatency : BenchKind::kThroughput;
  plan.warmup = options.warmup.value_or(plan.warmup);
  plan.repetitions = options.repetitions.value_or(plan.repetitions);
  plan.seed = options.seed.value_or(plan.seed);
  if (plan.warmup < 0) return parser.refuse("--warmup: expected a number of at least 0");
  if (plan.repetitions < 1) return parser.refuse("--repetitions: expected a number of at least 1");
  auto cases = cases_of(options);
  if (!cases) return report(cases.error());
  plan.cases = *std::move(cases);
  // All requests of a case are with the engine at once, so that its queue must hold them.
  for (const BenchSizes& sizes : plan.cases)
    options.engine.max_queue = std::max(options.engine.max_queue, sizes.batch);
  const Result<void> ran = run_and_report(plan, options);
  return ran ? 0 : report(ran.error());
}

}  // namespace stoker
