// The step loop: one thread that owns the model's use and the state of every running sequence. It
// takes token ids and gives token ids; text is the api room's.
//
// Requests wait in a queue until the scheduler has room for them. A step is one forward pass over
// the rows that the scheduler hands out. No result depends on what shares a step, on who was
// preempted, or on what the prefix cache held.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/inbox.h"
#include "engine/stepper.h"
#include "engine/token_stream.h"
#include "kv/saved_prefix.h"
#include "model/model.h"
#include "stoker/result.h"

namespace stoker::engine {

class StepLoop {
 public:
  /// Plans and reserves the memory, and starts the engine's thread and num_threads - 1 workers.
  /// Borrows the model, which must outlive it. Errors: those of plan_kv and KvStore::create.
  static Result<std::unique_ptr<StepLoop>> create(const Model& model, int num_threads,
                                                  const EngineLimits& limits);
  ~StepLoop();  ///< as stop()
  StepLoop(const StepLoop&) = delete;
  StepLoop& operator=(const StepLoop&) = delete;

  /// Queues requests that belong together, all or none; a stream for each. `ready` is that of every
  /// stream. Errors: kOverloaded (queue full), kCancelled (draining), kInvalidArgument with field
  /// "max_tokens" (more tokens than the whole store holds).
  Result<std::vector<std::shared_ptr<TokenStream>>> submit(std::vector<TokenRequest> requests,
                                                           const std::function<void()>& ready);

  void drain(std::chrono::milliseconds limit);
  /// Ends all requests with this error, refuses new ones with it, and takes no more steps after the
  /// one that runs. Any thread.
  void fail(const Error& error);
  /// Cancels what runs or waits after the step that runs, and ends the thread. Called once or more,
  /// by one thread.
  void stop();
  /// Refuses requests until wake_up(). As soon as nobody runs or waits, the memory for the state of
  /// sequences is given back, if that is wanted, and `also` is called on the engine's thread; it
  /// may be null. level: for stats().
  void sleep(int32_t level, bool gives_back_memory, std::function<void()> also);
  void wake_up();
  /// Refuses requests until reopen(), lets those that run or wait go on for up to `grace`, cancels
  /// the rest, and gives the memory for the state of sequences back. Then nobody reads the model.
  /// Error: kCancelled where the engine has ended, and nothing else is known.
  Result<void> quiesce(std::chrono::milliseconds grace);
  /// wake_up(), also after drain().
  void reopen();
  /// Has the engine's thread tell what runs and waits, line by line, between two steps.
  void report(std::function<void(std::string_view line)> tell) { inbox_->report(std::move(tell)); }
  void cancel_all() { inbox_->cancel_all(); }           ///< before the next step
  void reset_prefix_cache() { inbox_->reset_cache(); }  ///< before the next step

  // Beginnings of prompts as bytes, from the prefix cache and into it. Between two steps, which
  // wait meanwhile. Any thread; the caller waits, for the step that runs too. Error: kUnsupported
  // without a prefix cache, kResourceExhausted, kCancelled after the engine's end.
  /// Appends what the cache holds of a beginning of ids to `out`; returns its number of tokens:
  /// stoker::save_prefix, and its error.
  Result<int64_t> save_prefix(std::span<const int32_t> ids, std::vector<uint8_t>& out);
  /// stoker::load_prefix, and its error.
  Result<int64_t> load_prefix(const SavedPrefix& saved);
  /// The longest beginnings that can be saved, at most `max`, the one last used first.
  Result<std::vector<std::vector<int32_t>>> cached_prefixes(size_t max);

  StepProfile& profile() { return stepper_->profile(); }  ///< any thread
  bool healthy() const { return healthy_.load(); }
  EngineStats stats() const;
  const KvPlan& plan() const { return stepper_->plan(); }

 private:
  StepLoop(std::unique_ptr<Stepper> stepper, const EngineLimits& limits);

  void loop(const std::stop_token& stop);
  bool take_mail();
  template <class T, class Work>
  Result<T> between_steps(const Work& work);
  void release();
  void note_awake();

  const std::shared_ptr<Inbox> inbox_;
  const std::unique_ptr<Stepper> stepper_;
  Inbox::Mail mail_;               // the engine's thread only
  std::function<void()> release_;  // the same: once nobody runs or waits
  std::atomic<bool> healthy_{true};
  std::atomic<int32_t> sleep_level_{-1};
  std::atomic<bool> has_released_{false};
  std::jthread thread_;  // last: started when all else is there
};

}  // namespace stoker::engine
