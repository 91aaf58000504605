#include "engine/stepper.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/try.h"
#include "sampling/logprobs.h"

namespace stoker::engine {
namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
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
      scheduler_(*store_,
                 {.prefix_cache = limits.prefix_cache,
                  .replay = model.replay(),
                  .image_interval = limits.image_interval},
                 metrics_),
      cost_(limits.max_step_rows),
      scratch_(plan.rest->isa) {}

Result<std::unique_ptr<Sequence>> Stepper::sequence_of(TokenRequest request,
                                                       std::shared_ptr<TokenStream> stream) const {
  auto sequence = std::make_unique<Sequence>();
  sequence->num_prompt = static_cast<int64_t>(request.prompt.size());
  sequence->sampler.emplace(std::move(request.sampling), request.seed, request.prompt);
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
  const std::vector<Share>& shares = scheduler_.plan(max_prefill_rows);
  if (!shares.empty()) {
    const Clock::time_point begin = Clock::now();
    collect(shares);
    logits_.resize(wanted_.size() * static_cast<size_t>(model_.config().vocab_size));
    model_.forward(work_, batch_, wanted_, logits_.data(), nullptr);
    scheduler_.commit();
    choose_tokens(shares);
    int64_t num_rows = 0;
    for (const Share& share : shares) num_rows += share.rows;
    const auto is_decode = [](const Share& share) {
      return share.rows == 1 && share.sequence->num_chosen() > 1;
    };
    const int64_t decode_rows = std::ranges::count_if(shares, is_decode);
    count_step(seconds_between(begin, Clock::now()), decode_rows, num_rows - decode_rows);
    scheduler_.drop_finished();
  }
  scheduler_.count();
  if (limits_.check_integrity) check();
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

// The batch, and which rows' logits are needed: of those whose next token this step yields the last
// one, and of prompts whose log-probabilities are asked for all.
void Stepper::collect(const std::vector<Share>& shares) {
  batch_.clear();
  wanted_.clear();
  first_wanted_.clear();
  int64_t num_rows = 0;
  const Clock::time_point now = Clock::now();
  for (const Share& share : shares) {
    Sequence& sequence = *share.sequence;
    const int64_t first = sequence.state->length();
    batch_.push_back({&*sequence.state,
                      std::span(sequence.tokens)
                          .subspan(static_cast<size_t>(first), static_cast<size_t>(share.rows)),
                      share.captures});
    first_wanted_.push_back(static_cast<int64_t>(wanted_.size()));
    if (sequence.request.prompt_logprobs) {
      const int64_t last = std::min(first + share.rows, sequence.num_prompt - 1);
      for (auto row = std::max(first, static_cast<int64_t>(sequence.prompt_logprobs.size()));
           row < last; ++row)
        wanted_.push_back(num_rows + row - first);
    }
    num_rows += share.rows;
    if (share.rows == sequence.num_behind()) wanted_.push_back(num_rows - 1);
    if (std::exchange(sequence.is_scheduled, true)) continue;
    const int64_t cached = std::min(sequence.num_cached, sequence.num_prompt);
    sequence.stream->mark_scheduled(now, cached);
    metrics_.queue_seconds.record(seconds_between(sequence.submitted, now));
    metrics_.total_prompt_tokens.add(sequence.num_prompt);
    metrics_.total_cached_tokens.add(cached);
  }
  first_wanted_.push_back(static_cast<int64_t>(wanted_.size()));
}

void Stepper::choose_tokens(const std::vector<Share>& shares) {
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  for (size_t i = 0; i < shares.size(); ++i) {
    Sequence& sequence = *shares[i].sequence;
    const auto first = static_cast<size_t>(first_wanted_[i]);
    const auto count = static_cast<size_t>(first_wanted_[i + 1]) - first;
    if (count == 0) continue;
    const bool is_ready = sequence.num_behind() == 0;
    const float* logits = logits_.data() + first * vocab;
    const auto taken =
        take_prompt_logprobs(sequence, static_cast<int64_t>(count) - (is_ready ? 1 : 0), logits);
    if (!taken) {
      end(sequence, End::kError, taken.error());
    } else if (is_ready) {
      choose(sequence, {logits + (count - 1) * vocab, vocab});
    }
  }
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
  sequence.finish(end, std::move(error));
}

void Stepper::choose(Sequence& sequence, std::span<const float> logits) {
  const TokenRequest& request = sequence.request;
  if (limits_.observe) limits_.observe(sequence, logits);
  const auto token = sequence.sampler->draw(logits, {}, scratch_);
  if (!token) {
    return end(sequence, End::kError,
               token.error().with("position " + std::to_string(sequence.num_tokens())));
  }
  std::optional<PositionLogprobs> logprobs;
  if (request.logprobs)  // draw() has seen that all are numbers
    logprobs = *sampling::logprobs_of(logits, *token, *request.logprobs, scratch_);
  const Clock::time_point now = Clock::now();
  if (sequence.num_chosen() == 0) {
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
  if (std::ranges::find(request.stop_ids, *token) != request.stop_ids.end()) {
    end(sequence, End::kStopId);
  } else if (sequence.num_chosen() >= request.max_tokens) {
    end(sequence, End::kLength);
  }
}

void Stepper::count_step(double seconds, int64_t decode_rows, int64_t prefill_rows) {
  cost_.observe(decode_rows, prefill_rows, seconds);
  metrics_.total_steps.add(1);
  metrics_.total_decode_rows.add(decode_rows);
  metrics_.total_prefill_rows.add(prefill_rows);
  metrics_.step_seconds.record(seconds);
  metrics_.step_rows.record(static_cast<double>(decode_rows + prefill_rows));
}

}  // namespace stoker::engine
