#include "speculative/policy.h"

#include <algorithm>
#include <numeric>

namespace stoker::speculative {

namespace {

constexpr double kFaded = 0.5;  // what calibrations keep when a look begins

}  // namespace

Kind kind_of(double temperature) {
  if (temperature <= 0) return Kind::kGreedy;
  if (temperature <= 0.5) return Kind::kCool;
  return temperature <= 1 ? Kind::kWarm : Kind::kHot;
}

Policy::Policy(const PolicyOptions& options)
    : options_(options),
      costs_(options.max_rows, options.max_sequences),
      calibrations_(kNumKinds, Calibration(options.num_drafts)),
      governor_(options.num_drafts, options.max_rows) {}

// The numbers of those that draft, and whose rows keep draft keys: all, or only the one that is to
// be probed.
void Policy::select(std::span<const Candidate> candidates, const PlainStep& step) {
  selected_.clear();
  is_probe_ = false;
  const auto count = static_cast<int64_t>(candidates.size());
  const Verdict verdict =
      options_.is_adaptive ? governor_.decide(step, count, costs_) : Verdict::kDraft;
  const auto keeps = [](const Candidate& candidate) { return candidate.proposal->keeps_keys; };
  const bool all_keep = keeps_keys();
  auto probed = std::ranges::find_if(candidates, keeps);
  if (verdict == Verdict::kDraft) {
    selected_.resize(candidates.size());
    std::iota(selected_.begin(), selected_.end(), 0);
  } else if (verdict == Verdict::kProbe) {
    const auto ready = std::ranges::find_if(candidates, &Candidate::has_keys);
    if (ready != candidates.end()) {
      if (governor_.note_probe()) {
        for (Calibration& calibration : calibrations_) calibration.fade(kFaded);
      }
      selected_.push_back(static_cast<size_t>(ready - candidates.begin()));
      probed = ready;
      is_probe_ = true;
    } else if (probed == candidates.end() && governor_.can_look(options_.window, costs_)) {
      probed = candidates.begin();
    }
  } else {
    probed = candidates.end();
  }
  for (auto it = candidates.begin(); it != candidates.end(); ++it)
    it->proposal->keeps_keys = all_keep || it == probed;
}

double Policy::propose(std::span<const Candidate> candidates, const PlainStep& step,
                       const Round& round) {
  for (const Candidate& candidate : candidates) {
    candidate.proposal->tokens.clear();
    candidate.proposal->length = 0;
  }
  if (candidates.empty()) return 0;
  select(candidates, step);
  if (selected_.empty()) return 0;
  const double seconds = round(selected_);
  costs_.observe_round(static_cast<int64_t>(selected_.size()), seconds);
  PlainStep with = step;
  with.other_seconds += costs_.round_seconds(static_cast<int64_t>(selected_.size()));
  choose_lengths(candidates, with);
  return seconds;
}

void Policy::choose_lengths(std::span<const Candidate> candidates, PlainStep step) {
  verifiable_.clear();
  for (const size_t number : selected_) {
    const Candidate& candidate = candidates[number];
    Proposal& proposal = *candidate.proposal;
    proposal.survival.resize(proposal.tokens.size());
    calibrations_[static_cast<size_t>(candidate.kind)].survivals(proposal.confidence,
                                                                 proposal.survival);
    governor_.note_round(proposal.survival);
    const size_t useful =
        std::min(proposal.survival.size(), static_cast<size_t>(candidate.max_drafts));
    verifiable_.push_back(
        {std::span(proposal.survival).first(useful), static_cast<int32_t>(useful)});
  }
  if (options_.is_adaptive && !is_probe_)
    chooser_.choose(verifiable_, step, costs_, options_.max_rows);
  for (size_t i = 0; i < selected_.size(); ++i)
    candidates[selected_[i]].proposal->length = verifiable_[i].length;
}

void Policy::observe_verified(const Candidate& candidate, int32_t accepted) {
  const Proposal& proposal = *candidate.proposal;
  Calibration& calibration = calibrations_[static_cast<size_t>(candidate.kind)];
  for (int32_t k = 0; k < proposal.length && k <= accepted; ++k)
    calibration.observe(k, proposal.confidence[static_cast<size_t>(k)], k < accepted);
}

void Policy::observe_step(const Step& step) {
  costs_.observe_step(step.rows, step.seconds);
  if (step.round_seconds == 0) {
    governor_.note_plain_step(step.seconds);
  } else {
    governor_.note_drafted_step(step.sequences, step.tokens, step.round_seconds + step.seconds,
                                costs_);
  }
}

}  // namespace stoker::speculative
