#include "engine/stepper.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/try.h"
#include "sampling/logprobs.h"

namespace stoker::engine {
namespace {

int64_t prefill_rows(std::span<const Share> shares) {
  int64_t rows = 0;
  for (const Share& share : shares) rows += share.is_decode ? 0 : share.rows;
  return rows;
}

}  // namespace

Result<std::unique_ptr<Stepper>> Stepper::create(const Model& model, int num_threads,
                                                 const EngineLimits& limits) {
  const KvShape shape = model.state_shape();
  TRY_ASSIGN(const KvPlan plan, plan_kv(shape, {.bytes = limits.kv_budget_bytes,
                                                .max_num_seqs = limits.max_num_seqs,
                                                .prefix_cache = limits.prefix_cache,
                                                .image_bytes = limits.image_budget_bytes}));
  TRY_ASSIGN(std::unique_ptr<KvStore> store, KvStore::create(shape, plan));
  auto kernel_plan = limits.kernel_plan ? Result<kernels::KernelPlan>(*limits.kernel_plan)
                                        : kernels::default_plan();
  if (!kernel_plan) return std::move(kernel_plan).error();
  return std::unique_ptr<Stepper>(
      new Stepper(model, num_threads, *kernel_plan, limits, std::move(store)));
}

Stepper::Stepper(const Model& model, int num_threads, const kernels::KernelPlan& plan,
                 const EngineLimits& limits, std::unique_ptr<KvStore> store)
    : model_(model),
      limits_(limits),
      store_(std::move(store)),
      pool_(num_threads),
      work_(model.config(), pool_, plan, limits.max_step_rows),
      metrics_(limits.drafts ? model.config().dspark_block_size : 0),
      scheduler_(*store_,
                 {.prefix_cache = limits.prefix_cache,
                  .replay = model.replay(),
                  .image_interval = limits.image_interval},
                 metrics_),
      cost_(limits.max_step_rows),
      scratch_(plan.rest->isa) {
  if (!limits.drafts) return;
  drafter_.emplace(model, work_, scheduler_, metrics_, *limits.drafts, limits.max_step_rows,
                   plan.rest->isa);
  drafted_ids_.reserve(static_cast<size_t>(limits.max_step_rows));
}

Result<std::unique_ptr<Sequence>> Stepper::sequence_of(TokenRequest request,
                                                       std::shared_ptr<TokenStream> stream) const {
  auto sequence = std::make_unique<Sequence>();
  sequence->num_prompt = static_cast<int64_t>(request.prompt.size());
  sequence->sampler.emplace(std::move(request.sampling), request.seed, request.prompt);
  if (request.repetition) sequence->repetition.emplace(*request.repetition);
  if (request.constraint) sequence->constraint.emplace(*request.constraint);
  sequence->tokens = std::move(request.prompt);
  sequence->key.priority = request.priority;
  sequence->request = std::move(request);
  if (blocks_for(sequence->max_tokens()) > plan().num_blocks) {
    return Error{
        ErrorCode::kInvalidArgument,
        "max_tokens: prompt and answer may come to " + std::to_string(sequence->max_tokens()) +
            " tokens, and the memory for the state holds " + std::to_string(plan().tokens()) +
            ": ask for fewer, or give the engine more memory",
        "max_tokens"};
  }
  sequence->stream = std::move(stream);
  return sequence;
}

// Sequences whose next step is a single row after their prompt.
int64_t Stepper::num_decoding() const {
  return std::ranges::count_if(scheduler_.running(), [](const std::unique_ptr<Sequence>& sequence) {
    return sequence->is_attached && sequence->num_behind() == 1 && sequence->num_chosen() > 0;
  });
}

void Stepper::step() {
  const int64_t max_prefill_rows = cost_.prefill_rows(num_decoding());
  metrics_.max_prefill_rows.set(max_prefill_rows);
  const std::span<Share> shares = scheduler_.plan(max_prefill_rows);
  if (!shares.empty()) run(shares);
  scheduler_.count();
  if (limits_.check_integrity) check();
}

void Stepper::run(std::span<Share> shares) {
  const Clock::time_point begin = Clock::now();
  const double round_seconds =
      drafter_ ? drafter_->propose(shares, cost_.prefill_seconds(prefill_rows(shares))) : 0;
  scheduler_.plan_images();
  collect(shares);
  logits_.resize(wanted_.size() * static_cast<size_t>(model_.config().vocab_size));
  const Clock::time_point ready = Clock::now();
  model_.forward(work_, batch_, wanted_, logits_.data(), nullptr);
  const Clock::time_point forwarded = Clock::now();
  tell_progress(shares);
  const int64_t tokens_before = metrics_.total_tokens.get();
  choose_tokens(shares);
  const Clock::time_point chosen = Clock::now();
  scheduler_.commit();
  const double seconds = seconds_between(begin, Clock::now());
  const int64_t tokens = metrics_.total_tokens.get() - tokens_before;
  if (drafter_) drafter_->note_step(shares, tokens, round_seconds, seconds - round_seconds);
  metrics_.step_tokens.record(static_cast<double>(tokens));
  count_step(shares, seconds);
  if (profile_.is_on()) {
    profile_step(shares, {.begin = begin,
                          .draft_seconds = seconds_between(begin, ready),
                          .forward_seconds = seconds_between(ready, forwarded),
                          .choose_seconds = seconds_between(forwarded, chosen),
                          .seconds = seconds,
                          .num_tokens = static_cast<int32_t>(tokens)});
  }
  scheduler_.drop_finished();
}

void Stepper::check() const {
  const std::string problem = scheduler_.integrity_problem();
  CHECK(problem.empty(), problem.c_str());
}

void Stepper::fail(const Error& error) {
  scheduler_.abandon();
  scheduler_.end_running(End::kError, error);
  scheduler_.count();
}

// The tokens that a share runs: the sequence's own, with drafts in a copy.
std::span<const int32_t> Stepper::ids_of(const Share& share) {
  const Sequence& sequence = *share.sequence;
  const auto first = static_cast<size_t>(sequence.state->length());
  const auto own = static_cast<size_t>(share.rows - share.num_drafts);
  const std::span<const int32_t> tokens = std::span(sequence.tokens).subspan(first, own);
  if (share.num_drafts == 0) return tokens;
  const size_t begin = drafted_ids_.size();
  drafted_ids_.insert(drafted_ids_.end(), tokens.begin(), tokens.end());
  const auto& drafts = sequence.proposal.tokens;
  drafted_ids_.insert(drafted_ids_.end(), drafts.begin(), drafts.begin() + share.num_drafts);
  return std::span(drafted_ids_).subspan(begin);
}

// The batch, and which rows' logits are needed: of those whose next token this step yields the last
// one, with drafts all, and of prompts whose log-probabilities are asked for all.
void Stepper::collect(std::span<const Share> shares) {
  batch_.clear();
  wanted_.clear();
  first_wanted_.clear();
  drafted_ids_.clear();
  int64_t num_rows = 0;
  const Clock::time_point now = Clock::now();
  for (const Share& share : shares) {
    Sequence& sequence = *share.sequence;
    const int64_t first = sequence.state->length();
    batch_.push_back({&*sequence.state, ids_of(share), share.captures,
                      drafter_ ? drafter_->keys_from(share) : Segment::kNoDraftKeys});
    first_wanted_.push_back(static_cast<int64_t>(wanted_.size()));
    if (sequence.request.prompt_logprobs) {
      const int64_t last = std::min(first + share.rows, sequence.num_prompt - 1);
      for (auto row = std::max(first, static_cast<int64_t>(sequence.prompt_logprobs.size()));
           row < last; ++row)
        wanted_.push_back(num_rows + row - first);
    }
    const bool is_ready = share.rows - share.num_drafts == sequence.num_behind();
    num_rows += share.rows;
    for (int64_t back = is_ready ? share.num_drafts + 1 : 0; back > 0; --back)
      wanted_.push_back(num_rows - back);
    sequence.work.computed_tokens += share.rows;
    if (std::exchange(sequence.is_scheduled, true)) continue;
    const int64_t cached = std::min(sequence.num_cached, sequence.num_prompt);
    sequence.scheduled = now;
    sequence.stream->mark_scheduled(now, cached);
    metrics_.queue_seconds.record(seconds_between(sequence.submitted, now));
    metrics_.total_prompt_tokens.add(sequence.num_prompt);
    metrics_.total_cached_tokens.add(cached);
  }
  first_wanted_.push_back(static_cast<int64_t>(wanted_.size()));
}

// To those whose prompts are being read and who want to know.
void Stepper::tell_progress(std::span<const Share> shares) {
  const Clock::time_point now = Clock::now();
  for (const Share& share : shares) {
    const Sequence& sequence = *share.sequence;
    if (!sequence.request.tell_progress || sequence.num_chosen() > 0) continue;
    sequence.stream->tell_read(sequence.state->length(), now);
  }
}

void Stepper::choose_tokens(std::span<const Share> shares) {
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  for (size_t i = 0; i < shares.size(); ++i) {
    Sequence& sequence = *shares[i].sequence;
    const auto first = static_cast<size_t>(first_wanted_[i]);
    const auto count = first_wanted_[i + 1] - first_wanted_[i];
    if (count == 0) continue;
    // The state has drafts too, the tokens do not yet.
    const int64_t num_chosen =
        sequence.num_behind() == -shares[i].num_drafts ? shares[i].num_drafts + 1 : 0;
    const float* logits = logits_.data() + first * vocab;
    const auto taken = take_prompt_logprobs(sequence, count - num_chosen, logits);
    if (!taken) {
      end(sequence, End::kError, taken.error());
    } else if (num_chosen > 0) {
      choose_run(shares[i], logits + static_cast<size_t>(count - num_chosen) * vocab);
    }
  }
}

// Tokens from the logits [drafts + 1, vocab] of a share: one more, as long as each is the draft
// that the next row was run with. What was run with other drafts is rolled back.
void Stepper::choose_run(const Share& share, const float* logits) {
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  Sequence& sequence = *share.sequence;
  const std::vector<int32_t>& drafts = sequence.proposal.tokens;
  sequence.work.verified_drafts += share.num_drafts;
  int64_t accepted = 0;
  choose(sequence, {logits, vocab});
  while (!sequence.finished && accepted < share.num_drafts &&
         sequence.tokens.back() == drafts[static_cast<size_t>(accepted)]) {
    ++accepted;
    ++sequence.work.accepted_drafts;
    choose(sequence, {logits + static_cast<size_t>(accepted) * vocab, vocab});
  }
  if (share.num_drafts == 0) return;
  sequence.state->roll_back(share.num_drafts - accepted);
  drafter_->note_verified(share, static_cast<int32_t>(accepted));
}

// Log-probabilities of the next `count` prompt tokens, from the logits of the rows before them.
Result<void> Stepper::take_prompt_logprobs(Sequence& sequence, int64_t count, const float* logits) {
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  for (int64_t i = 0; i < count; ++i, logits += vocab) {
    const size_t position = sequence.prompt_logprobs.size() + 1;
    auto found = sampling::logprobs_of({logits, vocab}, sequence.tokens[position],
                                       *sequence.request.prompt_logprobs, scratch_);
    if (!found) return found.error().with("position " + std::to_string(position));
    sequence.prompt_logprobs.push_back(*std::move(found));
  }
  return {};
}

void Stepper::end(Sequence& sequence, End end, std::optional<Error> error) {
  metrics_.count_end(end);
  if (end != End::kCancelled && end != End::kError) record(sequence);
  sequence.finish(end, std::move(error));
}

// Of a sequence that has all its tokens.
void Stepper::record(const Sequence& sequence) {
  const double decode = seconds_between(sequence.first_token, sequence.last_token);
  const double inference = seconds_between(sequence.scheduled, sequence.last_token);
  const int64_t tokens = sequence.num_chosen();
  metrics_.request_prompt_tokens.record(static_cast<double>(sequence.num_prompt));
  metrics_.request_tokens.record(static_cast<double>(tokens));
  metrics_.request_max_tokens.record(static_cast<double>(sequence.request.max_tokens));
  metrics_.request_seconds.record(seconds_between(sequence.submitted, sequence.last_token));
  metrics_.request_prefill_seconds.record(inference - decode);
  metrics_.request_decode_seconds.record(decode);
  metrics_.request_inference_seconds.record(inference);
  if (tokens > 1) metrics_.request_token_seconds.record(decode / static_cast<double>(tokens - 1));
}

// The next token of a sequence, with which its constraint goes on.
Result<int32_t> Stepper::draw(Sequence& sequence, std::span<const float> logits) {
  std::optional<Constraint>& constraint = sequence.constraint;
  if (!constraint) return sequence.sampler->draw(logits, {}, scratch_);
  TRY_ASSIGN(const auto mask, constraint->mask());
  TRY_ASSIGN(const int32_t token, sequence.sampler->draw(logits, {}, scratch_, mask));
  if (auto accepted = constraint->accept(token); !accepted) return std::move(accepted).error();
  return token;
}

void Stepper::choose(Sequence& sequence, std::span<const float> logits) {
  const TokenRequest& request = sequence.request;
  if (limits_.observe) limits_.observe(sequence, logits);
  const auto token = draw(sequence, logits);
  if (!token) {
    return end(sequence, End::kError,
               token.error().with("position " + std::to_string(sequence.num_tokens())));
  }
  std::optional<PositionLogprobs> logprobs;
  if (request.logprobs)  // draw() has seen that all are numbers
    logprobs = *sampling::logprobs_of(logits, *token, *request.logprobs, scratch_);
  const Clock::time_point now = Clock::now();
  if (sequence.num_chosen() == 0) {
    sequence.first_token = now;
    metrics_.first_token_seconds.record(seconds_between(sequence.submitted, now));
    if (request.prompt_logprobs) sequence.stream->set_prompt_logprobs(sequence.prompt_logprobs);
  } else {
    metrics_.token_seconds.record(seconds_between(sequence.last_token, now));
  }
  sequence.last_token = now;
  sequence.tokens.push_back(*token);
  sequence.sampler->accept(*token);
  metrics_.total_tokens.add(1);
  sequence.stream->push(*token, std::move(logprobs), now, sequence.work);
  const bool is_repeated = sequence.repetition && sequence.repetition->accept(sequence.answer());
  if (std::ranges::find(request.stop_ids, *token) != request.stop_ids.end()) {
    end(sequence, End::kStopId);
  } else if (is_repeated && sequence.num_chosen() >= sequence.sampler->params().min_tokens) {
    end(sequence, End::kRepetition);
  } else if (sequence.num_chosen() >= request.max_tokens) {
    end(sequence, End::kLength);
  }
}

void Stepper::count_step(std::span<const Share> shares, double seconds) {
  const int64_t rows = num_rows(shares);
  const int64_t num_prefill = prefill_rows(shares);
  const auto num_decoding = std::ranges::count_if(shares, &Share::is_decode);
  cost_.observe(num_decoding, num_prefill, seconds);
  metrics_.total_steps.add(1);
  metrics_.total_decode_rows.add(rows - num_prefill);
  metrics_.total_prefill_rows.add(num_prefill);
  metrics_.step_seconds.record(seconds);
  metrics_.step_rows.record(static_cast<double>(rows));
}

void Stepper::profile_step(std::span<const Share> shares, StepRecord record) {
  record.num_sequences = static_cast<int32_t>(shares.size());
  record.num_waiting = static_cast<int32_t>(scheduler_.num_waiting());
  record.prefill_rows = static_cast<int32_t>(prefill_rows(shares));
  record.decode_rows = static_cast<int32_t>(num_rows(shares)) - record.prefill_rows;
  for (const Share& share : shares) record.num_drafts += static_cast<int32_t>(share.num_drafts);
  profile_.add(record);
}

}  // namespace stoker::engine
