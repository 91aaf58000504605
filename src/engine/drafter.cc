#include "engine/drafter.h"

#include <algorithm>

namespace stoker::engine {
namespace {

int32_t drafts_of(const DraftOptions& options, const ModelConfig& config) {
  return options.num_drafts > 0 ? std::min(options.num_drafts, config.dspark_block_size)
                                : config.dspark_block_size;
}

}  // namespace

Drafter::Drafter(const Model& model, Workspace& work, Scheduler& scheduler, Metrics& metrics,
                 const DraftOptions& options, int64_t max_step_rows, kernels::Isa isa)
    : model_(model),
      work_(work),
      scheduler_(scheduler),
      metrics_(metrics),
      options_(options),
      num_drafts_(drafts_of(options, model.config())),
      max_step_rows_(max_step_rows),
      policy_({.num_drafts = num_drafts_,
               .max_rows = max_step_rows,
               .max_sequences = max_step_rows,
               .window = model.config().sliding_window,
               .is_adaptive = options.is_adaptive}),
      scratch_(static_cast<size_t>(work.pool().num_threads()), sampling::Scratch(isa)) {
  const auto most = static_cast<size_t>(max_step_rows);
  candidates_.reserve(most);
  sequences_.reserve(most);
  jobs_.reserve(most);
  drafting_.reserve(most);
}

// Who has a chosen token that was not run, and wants more than the one that it gives.
speculative::Candidate Drafter::candidate_of(const Share& share) const {
  Sequence& sequence = *share.sequence;
  const int64_t wanted = sequence.request.max_tokens - sequence.num_chosen() - 1;
  if (!share.is_decode || !sequence.request.speculate || wanted < 1) return {};
  const SequenceState& state = *sequence.state;
  return {.proposal = &sequence.proposal,
          .kind = speculative::kind_of(sequence.sampler->params().temperature),
          .max_drafts = static_cast<int32_t>(std::min<int64_t>(wanted, num_drafts_)),
          .has_keys = state.draft_from() <=
                      std::max<int64_t>(0, state.length() - model_.config().sliding_window)};
}

double Drafter::propose(std::span<Share> shares, double prefill_seconds) {
  candidates_.clear();
  sequences_.clear();
  speculative::PlainStep step{.other_seconds = prefill_seconds};
  for (const Share& share : shares) {
    step.rows += share.is_decode ? 1 : 0;
    step.tokens += share.rows == share.sequence->num_behind() ? 1 : 0;
    const speculative::Candidate candidate = candidate_of(share);
    if (candidate.proposal == nullptr) continue;
    candidates_.push_back(candidate);
    sequences_.push_back(share.sequence);
  }
  const double seconds = policy_.propose(
      candidates_, step, [this](std::span<const size_t> numbers) { return run_round(numbers); });
  // Prompts of one token are beyond what prompts may have: none may be left.
  int64_t rows_left = std::max<int64_t>(0, max_step_rows_ - num_rows(shares));
  size_t number = 0;
  for (Share& share : shares) {
    if (number == sequences_.size() || share.sequence != sequences_[number]) continue;
    speculative::Proposal& proposal = *candidates_[number++].proposal;
    if (proposal.tokens.empty()) continue;
    proposal.length = static_cast<int32_t>(
        scheduler_.add_drafts(share, std::min<int64_t>(proposal.length, rows_left)));
    rows_left -= proposal.length;
    metrics_.total_drafted_tokens.add(static_cast<int64_t>(proposal.tokens.size()));
    metrics_.total_verified_tokens.add(proposal.length);
    metrics_.verified_drafts.record(proposal.length);
  }
  return seconds;
}

double Drafter::run_round(std::span<const size_t> numbers) {
  const Clock::time_point begin = Clock::now();
  jobs_.clear();
  drafting_.clear();
  for (const size_t number : numbers) {
    Sequence& sequence = *sequences_[number];
    speculative::Proposal& proposal = sequence.proposal;
    proposal.tokens.resize(static_cast<size_t>(num_drafts_));
    proposal.confidence.resize(static_cast<size_t>(num_drafts_));
    jobs_.push_back(
        {&*sequence.state, sequence.tokens.back(), proposal.tokens, proposal.confidence});
    drafting_.push_back(&sequence);
  }
  num_followed_.assign(jobs_.size(), 0);
  model_.draft(work_, jobs_,
               [this](size_t job, int64_t position, std::span<const float> logits, int worker) {
                 return pick(job, position, logits, worker);
               });
  for (size_t i = 0; i < jobs_.size(); ++i) {
    if (num_followed_[i] > 0) drafting_[i]->constraint->roll_back(num_followed_[i]);
  }
  if (options_.alter) {
    for (size_t i = 0; i < jobs_.size(); ++i) options_.alter(*drafting_[i], jobs_[i].tokens);
  }
  const double seconds = seconds_between(begin, Clock::now());
  metrics_.total_draft_rounds.add(static_cast<int64_t>(jobs_.size()));
  metrics_.draft_seconds.record(seconds);
  return seconds;
}

// As the target will choose, with the same noise: the two agree as often as they can. What the
// constraint of a sequence was led to by drafts is rolled back behind the round.
int32_t Drafter::pick(size_t job, int64_t position, std::span<const float> logits, int worker) {
  Sequence& sequence = *drafting_[job];
  const auto before = static_cast<size_t>(position - sequence.num_tokens());
  std::span<const uint64_t> allowed;
  // Behind a draft that it could not follow, any other is as good.
  bool is_followed = sequence.constraint && num_followed_[job] == before;
  if (is_followed) {
    const auto mask = sequence.constraint->mask();
    is_followed = mask.has_value();
    if (mask) allowed = *mask;
  }
  const auto token = sequence.sampler->draw(logits, jobs_[job].tokens.first(before),
                                            scratch_[static_cast<size_t>(worker)], allowed);
  if (!token) return 0;  // the target's choice fails too, or another draft is as good
  if (is_followed && sequence.constraint->accept(*token)) ++num_followed_[job];
  return *token;
}

int64_t Drafter::keys_from(const Share& share) const {
  const Sequence& sequence = *share.sequence;
  if (!sequence.request.speculate) return Segment::kNoDraftKeys;
  if (share.is_decode) return sequence.proposal.keeps_keys ? 0 : Segment::kNoDraftKeys;
  return policy_.keeps_keys() ? sequence.num_tokens() - model_.config().sliding_window
                              : Segment::kNoDraftKeys;
}

void Drafter::note_verified(const Share& share, int32_t accepted) {
  speculative::Proposal& proposal = share.sequence->proposal;
  // What lies behind an end was not put to the test.
  if (share.sequence->finished) proposal.length = accepted;
  policy_.observe_verified(
      {&proposal, speculative::kind_of(share.sequence->sampler->params().temperature)}, accepted);
  metrics_.total_accepted_tokens.add(accepted);
  for (int32_t place = 0; place < accepted; ++place)
    metrics_.accepted_at[static_cast<size_t>(place)].add(1);
}

void Drafter::note_step(std::span<const Share> shares, int64_t tokens, double round_seconds,
                        double seconds) {
  if (round_seconds > 0) metrics_.verify_seconds.record(seconds);
  if (!std::ranges::all_of(shares, &Share::is_decode)) return;
  policy_.observe_step({.sequences = static_cast<int64_t>(shares.size()),
                        .rows = num_rows(shares),
                        .tokens = tokens,
                        .round_seconds = round_seconds,
                        .seconds = seconds});
  const auto& losses = policy_.governor().num_losses();
  metrics_.total_switched_off_predicted.set(
      losses[static_cast<size_t>(speculative::Loss::kPredicted)]);
  metrics_.total_switched_off_measured.set(
      losses[static_cast<size_t>(speculative::Loss::kMeasured)]);
}

}  // namespace stoker::engine
