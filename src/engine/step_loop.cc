#include "engine/step_loop.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/try.h"

namespace stoker::engine {

Result<std::unique_ptr<StepLoop>> StepLoop::create(const Model& model, int num_threads,
                                                   const EngineLimits& limits) {
  const KvShape shape = kv_shape(model.config());
  TRY_ASSIGN(const KvPlan plan, plan_kv(shape, {.bytes = limits.kv_budget_bytes,
                                                .max_num_seqs = limits.max_num_seqs}));
  TRY_ASSIGN(std::unique_ptr<KvStore> store, KvStore::create(shape, plan));
  return std::unique_ptr<StepLoop>(new StepLoop(model, num_threads, limits, std::move(store)));
}

StepLoop::StepLoop(const Model& model, int num_threads, const EngineLimits& limits,
                   std::unique_ptr<KvStore> store)
    : model_(model),
      limits_(limits),
      store_(std::move(store)),
      pool_(num_threads),
      scheduler_(*store_, limits.max_chunk_rows) {
  thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

StepLoop::~StepLoop() {
  thread_.request_stop();
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<std::shared_ptr<TokenStream>> StepLoop::submit(TokenRequest request,
                                                      std::function<void()> ready) {
  auto sequence = std::make_unique<Sequence>();
  sequence->request = std::move(request);
  if (blocks_for(sequence->max_tokens()) > store_->plan().num_blocks) {
    return Error{ErrorCode::kInvalidArgument,
                 "max_tokens: prompt and answer may come to " +
                     std::to_string(sequence->max_tokens()) +
                     " tokens, and the memory for the state holds " +
                     std::to_string(store_->plan().tokens()) +
                     ": ask for fewer, or give the engine more memory",
                 "max_tokens"};
  }
  sequence->tokens.reserve(static_cast<size_t>(sequence->max_tokens()));
  sequence->tokens = sequence->request.prompt;
  sequence->stream = std::make_shared<TokenStream>(std::move(ready));
  auto stream = sequence->stream;
  {
    const std::lock_guard lock(mutex_);
    if (draining_ || !healthy())
      return Error{ErrorCode::kCancelled, "the engine is shutting down", ""};
    if (waiting_.size() - num_preempted_ >= static_cast<size_t>(limits_.max_queue)) {
      return Error{
          ErrorCode::kOverloaded,
          std::to_string(limits_.max_queue) + " requests are waiting already: try again later", ""};
    }
    waiting_.push_back(std::move(sequence));
  }
  work_.notify_all();
  return stream;
}

void StepLoop::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto is_idle = [this] { return waiting_.empty() && num_running_.load() == 0; };
  if (idle_.wait_for(lock, limit, is_idle)) return;
  cancel_all_.store(true);
  // One step at most; a bound in case that thread is gone.
  idle_.wait_for(lock, std::chrono::seconds(60), is_idle);
}

EngineCounts StepLoop::counts() const {
  const std::lock_guard lock(mutex_);
  return {num_running_.load(), static_cast<int64_t>(waiting_.size()), total_steps_.load(),
          total_rows_.load(), total_preemptions_.load()};
}

void StepLoop::loop(const std::stop_token& stop) {
  while (wait_for_work(stop)) {
    try {
      drop_cancelled();
      start_waiting();
      step();
    } catch (const std::bad_alloc&) {
      fail_running({ErrorCode::kResourceExhausted, "out of memory in a step", ""});
    } catch (const std::exception& error) {
      fail_running({ErrorCode::kInternal, std::string("a step failed: ") + error.what(), ""});
    }
    if (limits_.check_integrity) {
      const std::string problem = scheduler_.integrity_problem();
      CHECK(problem.empty(), problem.c_str());
    }
    const std::lock_guard lock(mutex_);
    num_running_.store(static_cast<int64_t>(scheduler_.running().size()));
    if (scheduler_.running().empty() && waiting_.empty()) idle_.notify_all();
  }
  healthy_.store(false);
  finish_all(End::kCancelled);
}

bool StepLoop::wait_for_work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  return work_.wait(lock, stop, [this] {
    return !waiting_.empty() || !scheduler_.running().empty();
  }) && !stop.stop_requested();
}

void StepLoop::drop_cancelled() {
  const bool all = cancel_all_.load();
  const auto end_if_cancelled = [all](Sequence& sequence) {
    if (all || sequence.stream->cancelled()) sequence.finish(End::kCancelled);
    return sequence.finished;
  };
  for (const auto& sequence : scheduler_.running()) end_if_cancelled(*sequence);
  scheduler_.drop_finished();
  const std::lock_guard lock(mutex_);
  size_t num_preempted = 0;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (!end_if_cancelled(*waiting_[i]) && i < num_preempted_) ++num_preempted;
  }
  num_preempted_ = num_preempted;
  std::erase_if(waiting_,
                [](const std::unique_ptr<Sequence>& sequence) { return sequence->finished; });
}

void StepLoop::start_waiting() {
  while (true) {
    std::unique_ptr<Sequence> sequence;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty() || !scheduler_.can_start(*waiting_.front())) return;
      sequence = std::move(waiting_.front());
      waiting_.pop_front();
      if (num_preempted_ > 0) --num_preempted_;
      num_running_.fetch_add(1);  // under the lock: drain() must not see it nowhere
    }
    if (sequence->num_chosen() == 0) sequence->stream->mark_scheduled(Clock::now());
    scheduler_.start(std::move(sequence));
  }
}

void StepLoop::step() {
  std::vector<std::unique_ptr<Sequence>> preempted;
  const std::vector<Share> shares = scheduler_.plan(preempted);
  if (!preempted.empty()) requeue(std::move(preempted));
  if (shares.empty()) return;

  std::vector<Segment> batch;
  std::vector<Sequence*> ready;  // those whose next token this step yields
  std::vector<int64_t> wanted;   // their last rows
  int64_t num_rows = 0;
  for (const Share& share : shares) {
    Sequence& sequence = *share.sequence;
    const auto first = static_cast<size_t>(sequence.state->length());
    batch.push_back({&*sequence.state,
                     std::span(sequence.tokens).subspan(first, static_cast<size_t>(share.rows))});
    num_rows += share.rows;
    if (share.rows == sequence.num_behind()) {
      ready.push_back(&sequence);
      wanted.push_back(num_rows - 1);
    }
  }
  logits_.resize(wanted.size() * static_cast<size_t>(model_.config().vocab_size));
  model_.forward(pool_, batch, wanted, logits_.data(), nullptr);
  total_steps_.fetch_add(1, std::memory_order_relaxed);
  total_rows_.fetch_add(num_rows, std::memory_order_relaxed);
  choose_tokens(ready);
  scheduler_.drop_finished();
}

void StepLoop::choose_tokens(const std::vector<Sequence*>& ready) {
  const auto vocab = static_cast<size_t>(model_.config().vocab_size);
  for (size_t i = 0; i < ready.size(); ++i) {
    Sequence& sequence = *ready[i];
    const TokenRequest& request = sequence.request;
    const auto token =
        sampling::sample({logits_.data() + i * vocab, vocab}, request.seed,
                         static_cast<uint64_t>(sequence.num_tokens()), request.sampling, scratch_);
    if (!token) {
      sequence.finish(End::kError,
                      token.error().with("position " + std::to_string(sequence.num_tokens())));
      continue;
    }
    sequence.tokens.push_back(*token);
    sequence.stream->push(*token, Clock::now());
    if (std::find(request.stop_ids.begin(), request.stop_ids.end(), *token) !=
        request.stop_ids.end()) {
      sequence.finish(End::kStopId);
    } else if (sequence.num_chosen() >= request.max_tokens) {
      sequence.finish(End::kLength);
    }
  }
}

// Preempted sequences wait before all others, the one that arrived first at the head.
void StepLoop::requeue(std::vector<std::unique_ptr<Sequence>> preempted) {
  total_preemptions_.fetch_add(static_cast<int64_t>(preempted.size()), std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  for (auto& sequence : preempted) waiting_.push_front(std::move(sequence));
  num_preempted_ += preempted.size();
}

void StepLoop::fail_running(const Error& error) {
  for (const auto& sequence : scheduler_.running()) {
    if (!sequence->finished) sequence->finish(End::kError, error);
  }
  scheduler_.drop_all();
}

void StepLoop::finish_all(End end) {
  for (const auto& sequence : scheduler_.running()) sequence->finish(end);
  scheduler_.drop_all();
  const std::lock_guard lock(mutex_);
  for (const auto& sequence : waiting_) sequence->finish(end);
  waiting_.clear();
  num_running_.store(0);
  idle_.notify_all();
}

}  // namespace stoker::engine
