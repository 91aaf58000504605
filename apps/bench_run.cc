#include "bench_run.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

namespace stoker {
namespace {

using Clock = std::chrono::steady_clock;

// Control tokens are the first ids and in the second half; a prompt may not have the image token.
constexpr int32_t kFirstPlainId = 3;

// One time that all requests of a case ran.
struct Run {
  double seconds = 0;
  std::vector<Finish> finishes;
};

Request random_request(std::mt19937_64& random, int32_t vocab_size, const BenchSizes& sizes) {
  const int32_t first = std::min(kFirstPlainId, vocab_size - 1);
  const auto num_plain = static_cast<uint64_t>(std::max(1, vocab_size / 2 - first));
  TokenPrompt prompt;
  for (int32_t i = 0; i < sizes.prompt_tokens; ++i)
    prompt.ids.push_back(first + static_cast<int32_t>(random() % num_plain));
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.seed = random();
  request.max_tokens = sizes.output_tokens;
  request.ignore_eos = true;
  return request;
}

Result<Run> run_once(LLM& llm, const BenchSizes& sizes, std::mt19937_64& random) {
  std::vector<Request> requests;
  requests.reserve(static_cast<size_t>(sizes.batch));
  for (int32_t i = 0; i < sizes.batch; ++i)
    requests.push_back(random_request(random, llm.model().vocab_size, sizes));
  const Clock::time_point begin = Clock::now();
  std::vector<Result<Generation>> answers = llm.generate(std::move(requests));
  Run run{std::chrono::duration<double>(Clock::now() - begin).count(), {}};
  for (Result<Generation>& answer : answers) {
    if (!answer) return std::move(answer).error();
    run.finishes.push_back(std::move(answer->finish));
  }
  return run;
}

std::vector<BenchMeasure> latency_of(const std::vector<Run>& runs) {
  std::vector<double> first_token;
  std::vector<double> token;
  for (const Run& run : runs) {
    for (const Finish& finish : run.finishes) {
      const Timings& timings = finish.timings;
      first_token.push_back(timings.first_token.count());
      const int32_t later = finish.usage.completion_tokens - 1;
      if (later > 0) token.push_back((timings.total - timings.first_token).count() / later);
    }
  }
  return {{"first_token_s", spread_of(first_token)}, {"token_s", spread_of(token)}};
}

std::vector<BenchMeasure> throughput_of(const std::vector<Run>& runs) {
  std::vector<double> prompt;
  std::vector<double> output;
  std::vector<double> total;
  for (const Run& run : runs) {
    int64_t num_prompt = 0;
    int64_t num_output = 0;
    for (const Finish& finish : run.finishes) {
      num_prompt += finish.usage.prompt_tokens;
      num_output += finish.usage.completion_tokens;
    }
    prompt.push_back(static_cast<double>(num_prompt) / run.seconds);
    output.push_back(static_cast<double>(num_output) / run.seconds);
    total.push_back(static_cast<double>(num_prompt + num_output) / run.seconds);
  }
  return {{"prompt_tokens_per_s", spread_of(prompt)},
          {"output_tokens_per_s", spread_of(output)},
          {"total_tokens_per_s", spread_of(total)}};
}

BenchResult result_of(BenchKind kind, const BenchSizes& sizes, const std::vector<Run>& runs) {
  BenchResult result{sizes, 0,
                     kind == BenchKind::kLatency ? latency_of(runs) : throughput_of(runs)};
  for (const Run& run : runs) result.num_requests += static_cast<int64_t>(run.finishes.size());
  return result;
}

Result<void> check_lengths(const BenchPlan& plan, const ModelInfo& model) {
  for (const BenchSizes& sizes : plan.cases) {
    if (int64_t{sizes.prompt_tokens} + sizes.output_tokens <= model.max_context_tokens) continue;
    return Error{ErrorCode::kInvalidArgument,
                 "--prompt-tokens and --output-tokens: expected at most " +
                     std::to_string(model.max_context_tokens) + " together, the context of " +
                     model.name + "; found " + std::to_string(sizes.prompt_tokens) + " and " +
                     std::to_string(sizes.output_tokens),
                 "prompt-tokens"};
  }
  return {};
}

}  // namespace

std::optional<Spread> spread_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return Spread{values.front(), median, values[(values.size() * 9 + 9) / 10 - 1], values.back()};
}

Result<void> run_bench(LLM& llm, const BenchPlan& plan,
                       const std::function<void(const BenchResult&)>& on_result) {
  if (auto checked = check_lengths(plan, llm.model()); !checked) return checked;
  std::mt19937_64 random(plan.seed);
  for (const BenchSizes& sizes : plan.cases) {
    std::vector<Run> runs;
    for (int i = 0; i < plan.warmup + plan.repetitions; ++i) {
      Result<Run> run = run_once(llm, sizes, random);
      if (!run) return std::move(run).error();
      if (i >= plan.warmup) runs.push_back(*std::move(run));
    }
    on_result(result_of(plan.kind, sizes, runs));
  }
  return {};
}

}  // namespace stoker
