// The engine's use of the draft head: before a step, drafts for its sequences and how many of them
// the step verifies; after it, what came of them. No answer depends on it: tokens are the target's
// own choice at each position, and a draft is kept where it is that choice.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/metrics.h"
#include "engine/scheduler.h"
#include "model/model.h"
#include "sampling/scratch.h"
#include "speculative/policy.h"

namespace stoker::engine {

struct DraftOptions {
  int32_t num_drafts = 0;   ///< of a round; 0: the model's dspark_block_size, which is the most
  bool is_adaptive = true;  ///< verify as many as pay, down to none; else all, in every step
  /// For tests: sees a sequence's drafts before they are verified, and may change them.
  std::function<void(const Sequence&, std::span<int32_t>)> alter = {};
};

/// The engine's thread only; draft rounds choose on the pool's threads.
class Drafter {
 public:
  /// Borrows the model, which has a draft head, the workspace, the scheduler and the metrics.
  Drafter(const Model& model, Workspace& work, Scheduler& scheduler, Metrics& metrics,
          const DraftOptions& options, int64_t max_step_rows, kernels::Isa isa);

  /// Gives shares of the step that is planned their drafts. prefill_seconds: what its rows of
  /// prompts are expected to take. Returns the seconds of the draft round; 0 without one.
  double propose(std::span<Share> shares, double prefill_seconds);

  /// Segment::draft_keys_from of a share.
  int64_t keys_from(const Share& share) const;

  /// Of a share's drafts, `accepted` were the target's choice.
  void note_verified(const Share& share, int32_t accepted);

  /// The step took `seconds` without its draft round, and gave so many tokens.
  void note_step(std::span<const Share> shares, int64_t tokens, double round_seconds,
                 double seconds);

 private:
  speculative::Candidate candidate_of(const Share& share) const;
  double run_round(std::span<const size_t> numbers);
  int32_t pick(size_t job, int64_t position, std::span<const float> logits, int worker);

  const Model& model_;
  Workspace& work_;
  Scheduler& scheduler_;
  Metrics& metrics_;
  const DraftOptions options_;
  const int32_t num_drafts_;
  const int64_t max_step_rows_;
  speculative::Policy policy_;
  std::vector<sampling::Scratch> scratch_;  // of each worker

  // Of the step that is planned; kept for their memory.
  std::vector<speculative::Candidate> candidates_;
  std::vector<Sequence*> sequences_;  // of the candidates
  std::vector<DraftJob> jobs_;
  std::vector<Sequence*> drafting_;   // of the jobs
  std::vector<size_t> num_followed_;  // drafts that the constraint of each was led to
};

}  // namespace stoker::engine
