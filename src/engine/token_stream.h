// A request in tokens, and the tokens on their way back.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "sampling/sampling.h"
#include "stoker/result.h"

namespace stoker::engine {

using Clock = std::chrono::steady_clock;

/// A request in tokens. Every id is in the vocabulary; prompt.size() + max_tokens fits the context.
struct TokenRequest {
  std::vector<int32_t> prompt;  ///< at least one
  sampling::Params sampling;
  uint64_t seed = 0;
  int32_t max_tokens = 1;         ///< >= 1
  std::vector<int32_t> stop_ids;  ///< choosing one of these ends the sequence
};

/// How a sequence ended.
enum class End { kStopId, kLength, kCancelled, kError };

/// What a reader finds in a TokenStream.
struct TokenProgress {
  std::vector<int32_t> tokens;  ///< chosen since the last look
  std::optional<End> end;       ///< nothing more will come
  std::optional<Error> error;   ///< with End::kError
  Clock::time_point submitted;
  Clock::time_point scheduled;  ///< first step that held a row; submitted until then
  Clock::time_point first_token;
  Clock::time_point last_token;
};

/// Tokens on their way from the engine's thread to one reader. Safe from both; cancel() from any
/// thread.
class TokenStream {
 public:
  explicit TokenStream(std::function<void()> ready);

  /// Moves out what is there. Never blocks for long.
  TokenProgress take();
  /// Waits until take() would find something, or the limit has passed.
  void wait(std::chrono::milliseconds limit);
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  /// `ready` is not called once this has returned.
  void detach();

  // The engine's side.
  void mark_scheduled(Clock::time_point now);
  void push(int32_t token, Clock::time_point now);
  void finish(End end, std::optional<Error> error);

 private:
  bool has_news() const;

  std::mutex mutex_;  // guards everything below
  std::condition_variable news_;
  TokenProgress progress_;
  bool end_taken_ = false;
  std::function<void()> ready_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace stoker::engine
