// Counters and histograms of the engine. The engine's thread writes, anybody reads; nobody waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/token_stream.h"
#include "stoker/stats.h"

namespace stoker::engine {

/// A count that one thread changes and all may read.
class Counter {
 public:
  void add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  void set(int64_t n) { value_.store(n, std::memory_order_relaxed); }
  int64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

/// Counts values between fixed bounds.
class Distribution {
 public:
  static constexpr size_t kMaxBounds = 24;

  /// bounds: ascending, at most kMaxBounds, static.
  explicit Distribution(std::span<const double> bounds) : bounds_(bounds) {}
  void record(double value);
  Histogram read() const;

 private:
  const std::span<const double> bounds_;
  std::array<std::atomic<int64_t>, kMaxBounds + 1> counts_{};
  std::atomic<double> sum_{0};
};

/// What the engine counts. Names as in EngineStats; here num_waiting has the preempted ones alone.
struct Metrics {
  /// max_drafts: of a round; 0: there are none.
  explicit Metrics(int32_t max_drafts = 0);

  Counter num_running, num_waiting;
  Counter num_blocks_used, num_blocks_cached, num_images, max_prefill_rows;
  Counter total_steps, total_prefill_rows, total_decode_rows;
  Counter total_prompt_tokens, total_cached_tokens, total_tokens, total_preemptions;
  Counter total_stopped, total_repeated, total_length, total_cancelled, total_failed;
  Counter total_draft_rounds, total_drafted_tokens, total_verified_tokens, total_accepted_tokens;
  Counter total_switched_off_predicted, total_switched_off_measured;
  std::vector<Counter> accepted_at;  ///< [drafts of a round]
  Distribution queue_seconds, first_token_seconds, token_seconds, step_seconds, step_rows;
  Distribution request_prompt_tokens, request_tokens, request_max_tokens;
  Distribution request_seconds, request_prefill_seconds, request_decode_seconds;
  Distribution request_inference_seconds, request_token_seconds;
  Distribution step_tokens, verified_drafts, draft_seconds, verify_seconds;

  void count_end(End end);
  EngineStats read() const;
};

}  // namespace stoker::engine
