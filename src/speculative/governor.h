// Whether drafts pay: predicted from what they cost and how often they were accepted lately,
// checked against what came of it, and switched off where it loses. To look again whether they
// would pay now costs a few steps with all drafts of one sequence, for which a hundredth of the
// time without drafts is saved up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "speculative/cost_model.h"
#include "speculative/lengths.h"

namespace stoker::speculative {

/// What is to be done about drafts in a step.
enum class Verdict {
  kDraft,  ///< for all that may
  kProbe,  ///< for one, and all are verified, to look whether they would pay now
  kRest,   ///< for none, though they pay: what steps cost without them is measured
  kNone,
};

/// Why drafts were switched off.
enum class Loss {
  kPredicted,  ///< for how often they are accepted, they cost too much
  kMeasured,   ///< they were slower
};
inline constexpr size_t kNumLosses = 2;

/// The engine's thread only.
class Governor {
 public:
  /// num_drafts: of a round. max_rows: of a step.
  Governor(int32_t num_drafts, int64_t max_rows);

  /// For a step in which so many sequences (>= 1) may have drafts.
  Verdict decide(const PlainStep& step, int64_t num_candidates, const CostModel& costs);
  /// A probe comes. True: it is the first one of a look, and what was known before is old.
  bool note_probe();
  /// Whether a look is paid for, with so many rows before it that keep draft keys for it alone.
  bool can_look(int64_t rows, const CostModel& costs) const;

  bool is_on() const { return is_on_; }
  /// Rows shall keep draft keys for the rounds to come: drafts are on, or were lately.
  bool keeps_keys() const;

  /// survival [num_drafts]: of a round's drafts, as they were predicted.
  void note_round(std::span<const float> survival);
  /// A step without drafts took so long.
  void note_plain_step(double seconds) { saved_up_ += kLookShare * seconds; }
  /// A step with drafts, without rows of prompts: in `seconds`, with its draft round, came `tokens`
  /// where without drafts there would have been `plain_tokens` from as many rows.
  void note_drafted_step(int64_t plain_tokens, int64_t tokens, double seconds,
                         const CostModel& costs);

  /// Times that drafts were switched off, by Loss.
  const std::array<int64_t, kNumLosses>& num_losses() const { return num_losses_; }

 private:
  static constexpr double kLookShare = 0.01;

  double predicted_gain(const PlainStep& step, int64_t num_candidates, const CostModel& costs);
  void switch_off(Loss loss);
  void block();

  const size_t num_drafts_;
  const int64_t max_rows_;
  LengthChooser chooser_;
  std::vector<Verifiable> imagined_;
  // Survivals of the latest rounds, which stand for the next ones: [rounds, num_drafts].
  std::vector<float> recent_;
  size_t num_recent_ = 0;
  size_t next_recent_ = 0;

  bool is_on_ = false;
  int64_t steps_on_ = 0;
  int64_t steps_off_ = 0;
  int64_t steps_until_rest_ = 0;
  int64_t blocked_steps_ = 0;  // still
  int64_t next_block_;
  double saved_up_ = 0;  // seconds, for looks
  bool is_first_look_ = true;
  int64_t probes_left_ = 0;  // of a look
  // Since the last check.
  int64_t num_checked_ = 0;
  double gained_seconds_ = 0;
  double drafted_seconds_ = 0;
  std::array<int64_t, kNumLosses> num_losses_{};
};

}  // namespace stoker::speculative
