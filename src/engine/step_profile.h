// What steps took and did, remembered while somebody wants to know.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/token_stream.h"

namespace stoker::engine {

/// One step. A plain value.
struct StepRecord {
  Clock::time_point begin;
  double draft_seconds = 0;    ///< before the model runs: the draft round, and what is prepared
  double forward_seconds = 0;  ///< the model over all rows
  double choose_seconds = 0;   ///< tokens from logits
  double seconds = 0;          ///< the whole step; the rest is bookkeeping
  int32_t num_sequences = 0;
  int32_t num_waiting = 0;  ///< others, which are queued
  int32_t prefill_rows = 0;
  int32_t decode_rows = 0;  ///< drafts among them
  int32_t num_drafts = 0;
  int32_t num_tokens = 0;  ///< chosen
};

/// Written by the engine's thread; switched and read by any.
class StepProfile {
 public:
  static constexpr size_t kMaxSteps = 50'000;

  /// What was remembered.
  struct Steps {
    std::vector<StepRecord> records;
    size_t num_left_out = 0;  ///< later steps, beyond kMaxSteps
  };

  /// False: it is on already.
  bool start();
  /// Ends it; nothing where it was not on.
  std::optional<Steps> stop();

  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  /// Nothing where it is not on.
  void add(const StepRecord& record);

 private:
  std::atomic<bool> is_on_{false};  // changed under the mutex
  std::mutex mutex_;                // guards steps_
  Steps steps_;
};

}  // namespace stoker::engine
