// What `stoker bench` measures: requests of given lengths, so many at once, through the door that
// every program uses.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stoker/llm.h"
#include "stoker/result.h"

namespace stoker {

enum class BenchKind {
  kLatency,     ///< how long a request waits for its first token and for each later one
  kThroughput,  ///< how many tokens a second all requests get together
};

/// So many requests at once, of these lengths.
struct BenchSizes {
  int32_t batch = 1;
  int32_t prompt_tokens = 1;
  int32_t output_tokens = 1;
};

struct BenchPlan {
  BenchKind kind = BenchKind::kLatency;
  std::vector<BenchSizes> cases;
  int warmup = 1;       ///< runs of each case that are not measured
  int repetitions = 3;  ///< runs that are
  uint64_t seed = 0;    ///< of the prompts and of what is drawn
};

/// How values are spread. p90: the least that nine tenths of them do not exceed.
struct Spread {
  double min = 0;
  double median = 0;
  double p90 = 0;
  double max = 0;
};

/// None of no values.
std::optional<Spread> spread_of(std::vector<double> values);

struct BenchMeasure {
  std::string name;  ///< with its unit: "first_token_s"
  std::optional<Spread> spread;
};

/// What came of a case. Latency: first_token_s, of each request; token_s, of each request of at
/// least two tokens the mean between them. Throughput, of each repetition: prompt_tokens_per_s,
/// output_tokens_per_s, total_tokens_per_s.
struct BenchResult {
  BenchSizes sizes;
  int64_t num_requests = 0;  ///< measured
  std::vector<BenchMeasure> measures;
};

/// Runs the cases in order and hands each result to `on_result` at once. Prompts are random ids,
/// each another, so that no cached prefix helps; answers go on behind an end of text, to their
/// length. Errors: kInvalidArgument for lengths that the context does not hold, before anything
/// runs; those of the requests.
Result<void> run_bench(LLM& llm, const BenchPlan& plan,
                       const std::function<void(const BenchResult&)>& on_result);

}  // namespace stoker
