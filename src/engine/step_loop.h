// The step loop: one thread that owns the model and the state of every running sequence. It takes
// token ids and gives token ids; text is the api room's.
//
// Requests wait in a queue, first come first served, until the scheduler has room for them. A step
// is one forward pass over the rows that the scheduler hands out. No result depends on what shares
// a step, nor on who was preempted.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/worker_pool.h"
#include "engine/scheduler.h"
#include "engine/token_stream.h"
#include "model/model.h"
#include "sampling/sampling.h"
#include "stoker/result.h"

namespace stoker::engine {

struct EngineLimits {
  int32_t max_num_seqs = 8;     ///< as far as the budget has slots for them
  int32_t max_queue = 1024;     ///< requests that wait; preempted ones are not counted
  int64_t kv_budget_bytes = 0;  ///< memory of all sequences' state (plan_kv)
  int64_t max_chunk_rows =
      128;  ///< rows of a step for sequences that are more than one token behind
  bool check_integrity = false;  ///< after every step; aborts on a problem. For tests
};

/// Counts for health and tests; each is exact at some moment, not all at the same one. Totals only
/// grow.
struct EngineCounts {
  int64_t num_running = 0;
  int64_t num_waiting = 0;
  int64_t total_steps = 0;
  int64_t total_rows = 0;
  int64_t total_preemptions = 0;
};

class StepLoop {
 public:
  /// Plans and reserves the memory, and starts the engine's thread and num_threads - 1 workers.
  /// Borrows the model, which must outlive it. Errors: those of plan_kv and KvStore::create.
  static Result<std::unique_ptr<StepLoop>> create(const Model& model, int num_threads,
                                                  const EngineLimits& limits);
  ~StepLoop();  ///< cancels what runs and joins
  StepLoop(const StepLoop&) = delete;
  StepLoop& operator=(const StepLoop&) = delete;

  /// Queues a request. Errors: kOverloaded (queue full), kCancelled (draining), kInvalidArgument
  /// with field "max_tokens" (more tokens than the whole store holds).
  Result<std::shared_ptr<TokenStream>> submit(TokenRequest request, std::function<void()> ready);

  void drain(std::chrono::milliseconds limit);
  bool healthy() const { return healthy_.load(); }
  EngineCounts counts() const;
  const KvPlan& plan() const { return store_->plan(); }

 private:
  StepLoop(const Model& model, int num_threads, const EngineLimits& limits,
           std::unique_ptr<KvStore> store);

  void loop(const std::stop_token& stop);
  bool wait_for_work(const std::stop_token& stop);
  void drop_cancelled();
  void start_waiting();
  void step();
  void choose_tokens(const std::vector<Sequence*>& ready);
  void requeue(std::vector<std::unique_ptr<Sequence>> preempted);
  void fail_running(const Error& error);
  void finish_all(End end);

  const Model& model_;
  const EngineLimits limits_;
  const std::unique_ptr<KvStore> store_;
  WorkerPool pool_;

  // The engine's thread only.
  Scheduler scheduler_;
  sampling::Scratch scratch_;
  std::vector<float> logits_;

  mutable std::mutex mutex_;  // guards waiting_, num_preempted_ and draining_
  std::condition_variable_any work_;
  std::condition_variable idle_;
  std::deque<std::unique_ptr<Sequence>> waiting_;  // preempted ones first
  size_t num_preempted_ = 0;                       // of these
  bool draining_ = false;

  std::atomic<bool> cancel_all_{false};
  std::atomic<bool> healthy_{true};
  std::atomic<int64_t> num_running_{0};
  std::atomic<int64_t> total_steps_{0};
  std::atomic<int64_t> total_rows_{0};
  std::atomic<int64_t> total_preemptions_{0};

  std::jthread thread_;  // last: started when all else is there
};

}  // namespace stoker::engine
