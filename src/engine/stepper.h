// One step at a time: the rows of the scheduler through the model, and tokens from their logits.
// Owns the memory of all sequences. No threads of its own but the workers, so that tests can drive
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/worker_pool.h"
#include "engine/drafter.h"
#include "engine/metrics.h"
#include "engine/scheduler.h"
#include "engine/step_cost.h"
#include "engine/step_profile.h"
#include "model/model.h"
#include "sampling/scratch.h"
#include "stoker/result.h"

namespace stoker::engine {

struct EngineLimits {
  int32_t max_num_seqs = 256;   ///< as far as the budget has slots for them
  int32_t max_queue = 1024;     ///< requests that wait; preempted ones are not counted
  int64_t kv_budget_bytes = 0;  ///< memory of all sequences' state (plan_kv)
  int64_t max_step_rows = 1024;
  bool prefix_cache = true;
  int64_t image_budget_bytes = -1;                      ///< of the budget; -1: plan_kv's share
  int64_t image_interval = 512;                         ///< SchedulerOptions
  std::optional<kernels::KernelPlan> kernel_plan = {};  ///< none: default_plan()
  std::optional<DraftOptions> drafts = {};              ///< none: no drafts; only with a draft head
  // For tests.
  bool check_integrity = false;  ///< after every step; aborts on a problem
  /// Sees the logits [vocab_size] from which a sequence's next token is chosen.
  std::function<void(const Sequence&, std::span<const float>)> observe = {};
};

/// The engine's thread only, except where noted.
class Stepper {
 public:
  /// Plans and reserves the memory, and starts num_threads - 1 workers. Borrows the model, which
  /// must outlive it. Errors: those of plan_kv and KvStore::create.
  static Result<std::unique_ptr<Stepper>> create(const Model& model, int num_threads,
                                                 const EngineLimits& limits);

  /// A request as a sequence, not yet queued. Error: kInvalidArgument with field "max_tokens" for
  /// one that has more tokens than the whole store holds. Any thread.
  Result<std::unique_ptr<Sequence>> sequence_of(TokenRequest request,
                                                std::shared_ptr<TokenStream> stream) const;

  /// Whom to step for, and the way to change it.
  Scheduler& scheduler() { return scheduler_; }

  /// One forward pass, if somebody runs or waits, and the tokens that it yields. Throws what an
  /// allocation may throw.
  void step();
  /// While nobody runs or waits: as Scheduler's.
  void give_back_memory() { scheduler_.give_back_memory(); }
  /// After step() threw: ends whoever ran.
  void fail(const Error& error);

  const Model& model() const { return model_; }
  const KvPlan& plan() const { return store_->plan(); }  ///< any thread
  const Metrics& metrics() const { return metrics_; }    ///< any thread
  StepProfile& profile() { return profile_; }            ///< any thread

 private:
  Stepper(const Model& model, int num_threads, const kernels::KernelPlan& plan,
          const EngineLimits& limits, std::unique_ptr<KvStore> store);

  int64_t num_decoding() const;
  void run(std::span<Share> shares);
  void collect(std::span<const Share> shares);
  std::span<const int32_t> ids_of(const Share& share);
  static void tell_progress(std::span<const Share> shares);
  void choose_tokens(std::span<const Share> shares);
  void choose_run(const Share& share, const float* logits);
  Result<int32_t> draw(Sequence& sequence, std::span<const float> logits);
  void choose(Sequence& sequence, std::span<const float> logits);
  Result<void> take_prompt_logprobs(Sequence& sequence, int64_t count, const float* logits);
  void end(Sequence& sequence, End end, std::optional<Error> error = std::nullopt);
  void record(const Sequence& sequence);
  void count_step(std::span<const Share> shares, double seconds);
  void profile_step(std::span<const Share> shares, StepRecord record);
  void check() const;

  const Model& model_;
  const EngineLimits limits_;
  const std::unique_ptr<KvStore> store_;
  WorkerPool pool_;
  Workspace work_;
  Metrics metrics_;
  Scheduler scheduler_;
  StepCost cost_;
  StepProfile profile_;
  std::optional<Drafter> drafter_;

  // Of the step that runs; kept for their memory.
  std::vector<Segment> batch_;
  std::vector<int32_t> drafted_ids_;   // of the shares with drafts, one after the other
  std::vector<int64_t> wanted_;        // flat numbers of the rows whose logits are wanted
  std::vector<int64_t> first_wanted_;  // [shares + 1]: index into wanted_
  std::vector<float> logits_;
  sampling::Scratch scratch_;
};

}  // namespace stoker::engine
