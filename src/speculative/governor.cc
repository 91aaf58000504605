#include "speculative/governor.h"

#include <algorithm>

namespace stoker::speculative {
namespace {

constexpr size_t kRecent = 32;      // rounds
constexpr int64_t kProbes = 3;      // of a look
constexpr double kWorth = 1.02;     // gain at which drafts are switched on; they stay above 1
constexpr double kKeyShare = 0.03;  // of a row, at most, that its draft keys cost
constexpr int64_t kStepsPerRest = 64;
constexpr int64_t kStepsKept = 64;  // in which draft keys are kept though drafts are off
constexpr int64_t kStepsPerCheck = 32;
constexpr double kLeastGain = 0.99;    // as measured
constexpr int64_t kStepsToBeSure = 8;  // of a loss that is clear
constexpr double kClearLoss = 0.1;
constexpr int64_t kFirstBlock = 128;  // steps
constexpr int64_t kLongestBlock = 1024;

}  // namespace

Governor::Governor(int32_t num_drafts, int64_t max_rows)
    : num_drafts_(static_cast<size_t>(num_drafts)),
      max_rows_(max_rows),
      recent_(kRecent * num_drafts_),
      steps_until_rest_(kStepsPerRest),
      next_block_(kFirstBlock) {}

// Tokens a second with drafts, divided by those without: of steps whose rounds were the recent
// ones.
double Governor::predicted_gain(const PlainStep& step, int64_t num_candidates,
                                const CostModel& costs) {
  PlainStep with = step;
  with.other_seconds += costs.round_seconds(num_candidates);
  const auto width = static_cast<size_t>(num_candidates);
  double tokens = 0;
  double seconds = 0;
  for (size_t round = 0; round < num_recent_; round += width) {
    imagined_.clear();
    for (size_t i = 0; i < width; ++i) {
      imagined_.push_back(
          {std::span(recent_).subspan((round + i) % num_recent_ * num_drafts_, num_drafts_)});
    }
    const Expected expected = chooser_.choose(imagined_, with, costs, max_rows_);
    tokens += expected.tokens;
    seconds += expected.seconds;
  }
  const double plain = step.other_seconds + costs.step_seconds(step.rows);
  return tokens / seconds * plain / static_cast<double>(step.tokens);
}

bool Governor::keeps_keys() const {
  return blocked_steps_ == 0 && steps_off_ < kStepsKept;
}

Verdict Governor::decide(const PlainStep& step, int64_t num_candidates, const CostModel& costs) {
  if (blocked_steps_ > 0) {
    --blocked_steps_;
    return Verdict::kNone;
  }
  // What drafts are compared with comes first.
  if (step.other_seconds == 0 && !costs.knows_step(step.rows)) return Verdict::kRest;
  if (!costs.is_known() || probes_left_ > 0) return Verdict::kProbe;
  if (num_recent_ > 0 && predicted_gain(step, num_candidates, costs) > (is_on_ ? 1.0 : kWorth)) {
    if (!is_on_) steps_on_ = 0;
    is_on_ = true;
    ++steps_on_;
    steps_off_ = 0;
    if (--steps_until_rest_ > 0) return Verdict::kDraft;
    steps_until_rest_ = kStepsPerRest;
    return Verdict::kRest;
  }
  if (is_on_) {
    switch_off(Loss::kPredicted);
    if (steps_on_ < kStepsPerCheck) {  // what switched them on was an error
      block();
      return Verdict::kNone;
    }
  }
  ++steps_off_;
  return can_look(0, costs) ? Verdict::kProbe : Verdict::kNone;
}

bool Governor::can_look(int64_t rows, const CostModel& costs) const {
  const double row = costs.step_seconds(1);
  const double keys = kKeyShare * static_cast<double>(rows) * row;
  const double verified = costs.step_seconds(1 + static_cast<int64_t>(num_drafts_)) - row;
  return is_first_look_ || saved_up_ >= kProbes * (costs.round_seconds(1) + verified) + keys;
}

bool Governor::note_probe() {
  const bool is_first = probes_left_ == 0;
  if (is_first) {
    probes_left_ = kProbes;
    num_recent_ = next_recent_ = 0;
    saved_up_ = 0;
    is_first_look_ = false;
  }
  --probes_left_;
  return is_first;
}

void Governor::note_round(std::span<const float> survival) {
  std::ranges::copy(survival, recent_.begin() + static_cast<int64_t>(next_recent_ * num_drafts_));
  next_recent_ = (next_recent_ + 1) % kRecent;
  num_recent_ = std::min(num_recent_ + 1, kRecent);
}

void Governor::note_drafted_step(int64_t plain_tokens, int64_t tokens, double seconds,
                                 const CostModel& costs) {
  if (!is_on_) return;
  const double plain = costs.step_seconds(plain_tokens) / static_cast<double>(plain_tokens);
  gained_seconds_ += static_cast<double>(tokens) * plain - seconds;
  drafted_seconds_ += seconds;
  ++num_checked_;
  const bool is_clear =
      num_checked_ >= kStepsToBeSure && gained_seconds_ < -kClearLoss * drafted_seconds_;
  if (num_checked_ < kStepsPerCheck && !is_clear) return;
  const bool loses = gained_seconds_ < (kLeastGain - 1) * drafted_seconds_;
  num_checked_ = 0;
  gained_seconds_ = drafted_seconds_ = 0;
  if (loses) {
    switch_off(Loss::kMeasured);
    block();
  } else {
    next_block_ = kFirstBlock;
  }
}

// No drafts and no looks for a while, longer each time.
void Governor::block() {
  num_recent_ = next_recent_ = 0;
  saved_up_ = 0;
  blocked_steps_ = next_block_;
  next_block_ = std::min(2 * next_block_, kLongestBlock);
}

void Governor::switch_off(Loss loss) {
  is_on_ = false;
  ++num_losses_[static_cast<size_t>(loss)];
}

}  // namespace stoker::speculative
