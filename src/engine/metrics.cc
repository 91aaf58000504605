#include "engine/metrics.h"

#include <algorithm>

namespace stoker::engine {
namespace {

// 0.1 ms to some minutes: a token of the demo, and a prompt of a million tokens on one server.
constexpr double kSeconds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                               0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10,
                               25,     50,      100,    250,   500,    1000};
constexpr double kDrafts[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16};
constexpr double kTokens[] = {1,    2,    5,     10,    20,    50,     100,    200,    500,    1000,
                              2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};
constexpr double kRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};

}  // namespace

void Distribution::record(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

Histogram Distribution::read() const {
  Histogram out;
  out.bounds.assign(bounds_.begin(), bounds_.end());
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    out.counts.push_back(counts_[i].load(std::memory_order_relaxed));
    out.count += out.counts.back();
  }
  out.sum = sum_.load(std::memory_order_relaxed);
  return out;
}

Metrics::Metrics(int32_t max_drafts)
    : accepted_at(static_cast<size_t>(max_drafts)),
      queue_seconds(kSeconds),
      first_token_seconds(kSeconds),
      token_seconds(kSeconds),
      step_seconds(kSeconds),
      step_rows(kRows),
      request_prompt_tokens(kTokens),
      request_tokens(kTokens),
      request_max_tokens(kTokens),
      request_seconds(kSeconds),
      request_prefill_seconds(kSeconds),
      request_decode_seconds(kSeconds),
      request_inference_seconds(kSeconds),
      request_token_seconds(kSeconds),
      step_tokens(kRows),
      verified_drafts(kDrafts),
      draft_seconds(kSeconds),
      verify_seconds(kSeconds) {}

void Metrics::count_end(End end) {
  switch (end) {
    case End::kStopId:
      return total_stopped.add(1);
    case End::kRepetition:
      return total_repeated.add(1);
    case End::kLength:
      return total_length.add(1);
    case End::kCancelled:
      return total_cancelled.add(1);
    case End::kError:
      return total_failed.add(1);
  }
}

EngineStats Metrics::read() const {
  EngineStats out;
  out.num_running = num_running.get();
  out.num_waiting = num_waiting.get();
  out.num_blocks_used = num_blocks_used.get();
  out.num_blocks_cached = num_blocks_cached.get();
  out.num_images = num_images.get();
  out.max_prefill_rows = max_prefill_rows.get();
  out.total_steps = total_steps.get();
  out.total_prefill_rows = total_prefill_rows.get();
  out.total_decode_rows = total_decode_rows.get();
  out.total_prompt_tokens = total_prompt_tokens.get();
  out.total_cached_tokens = total_cached_tokens.get();
  out.total_tokens = total_tokens.get();
  out.total_preemptions = total_preemptions.get();
  out.total_stopped = total_stopped.get();
  out.total_repeated = total_repeated.get();
  out.total_length = total_length.get();
  out.total_cancelled = total_cancelled.get();
  out.total_failed = total_failed.get();
  out.total_draft_rounds = total_draft_rounds.get();
  out.total_drafted_tokens = total_drafted_tokens.get();
  out.total_verified_tokens = total_verified_tokens.get();
  out.total_accepted_tokens = total_accepted_tokens.get();
  for (const Counter& counter : accepted_at) out.accepted_at.push_back(counter.get());
  out.total_switched_off_predicted = total_switched_off_predicted.get();
  out.total_switched_off_measured = total_switched_off_measured.get();
  out.queue_seconds = queue_seconds.read();
  out.first_token_seconds = first_token_seconds.read();
  out.token_seconds = token_seconds.read();
  out.step_seconds = step_seconds.read();
  out.step_rows = step_rows.read();
  out.request_prompt_tokens = request_prompt_tokens.read();
  out.request_tokens = request_tokens.read();
  out.request_max_tokens = request_max_tokens.read();
  out.request_seconds = request_seconds.read();
  out.request_prefill_seconds = request_prefill_seconds.read();
  out.request_decode_seconds = request_decode_seconds.read();
  out.request_inference_seconds = request_inference_seconds.read();
  out.request_token_seconds = request_token_seconds.read();
  out.step_tokens = step_tokens.read();
  out.verified_drafts = verified_drafts.read();
  out.draft_seconds = draft_seconds.read();
  out.verify_seconds = verify_seconds.read();
  return out;
}

}  // namespace stoker::engine
