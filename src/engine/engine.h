// The step loop: one thread that owns the model and the state of every running sequence. It takes
// token ids and gives token ids; text is the api room's.
//
// Requests wait in a queue, first come first served; up to max_num_seqs run. A step is one forward
// pass: the next token of every sequence that decodes, then chunks of prompts up to a number of
// rows. No result depends on what shares a step.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/worker_pool.h"
#include "kv/sequence_state.h"
#include "model/model.h"
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

struct EngineLimits {
  int max_num_seqs = 8;
  int max_queue = 1024;
  int64_t max_state_bytes = 0;  ///< of all running sequences together
  int max_prefill_rows = 128;   ///< prompt rows of a step
};

/// Counts for health and tests; each is exact at some moment, not all at the same one.
struct EngineCounts {
  int64_t num_running = 0;
  int64_t num_waiting = 0;
  int64_t num_steps = 0;
};

class StepLoop {
 public:
  /// Borrows the model, which must outlive it. Starts the engine's thread and num_threads - 1
  /// workers.
  StepLoop(const Model& model, int num_threads, const EngineLimits& limits);
  ~StepLoop();  ///< cancels what runs and joins
  StepLoop(const StepLoop&) = delete;
  StepLoop& operator=(const StepLoop&) = delete;

  /// Queues a request. Errors: kOverloaded (queue full), kCancelled (draining), kInvalidArgument
  /// (its state alone is larger than max_state_bytes, field "max_tokens").
  Result<std::shared_ptr<TokenStream>> submit(TokenRequest request, std::function<void()> ready);

  void drain(std::chrono::milliseconds limit);
  bool healthy() const { return healthy_.load(); }
  EngineCounts counts() const;

 private:
  struct Sequence;

  void loop(const std::stop_token& stop);
  bool wait_for_work(const std::stop_token& stop);
  void admit();
  void drop_cancelled();
  void step();
  void choose_tokens(const std::vector<Sequence*>& ready, const std::vector<float>& logits);
  void fail_running(const Error& error);
  void finish_all(End end);
  int64_t state_bytes(const TokenRequest& request) const;

  const Model& model_;
  const EngineLimits limits_;
  const KvShape shape_;
  WorkerPool pool_;
  sampling::Scratch scratch_;
  std::vector<std::unique_ptr<Sequence>> running_;  // the engine's thread only
  int64_t running_bytes_ = 0;                       // likewise

  mutable std::mutex mutex_;  // guards waiting_ and draining_
  std::condition_variable_any work_;
  std::condition_variable idle_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  bool draining_ = false;
  std::atomic<bool> cancel_all_{false};
  std::atomic<bool> healthy_{true};
  std::atomic<int64_t> num_running_{0};
  std::atomic<int64_t> num_steps_{0};

  std::jthread thread_;  // last: started when all else is there
};

}  // namespace stoker::engine
