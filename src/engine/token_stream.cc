// TokenStream: what the engine thread tells one request, and the request's side of it.
#include "engine/token_stream.h"

#include <utility>

namespace stoker::engine {

TokenStream::TokenStream(std::shared_ptr<Inbox> inbox, std::function<void()> ready)
    : inbox_(std::move(inbox)), ready_(std::move(ready)) {
  Cost& cost = progress_.cost;
  cost.submitted = Clock::now();
  cost.scheduled = cost.first_token = cost.last_token = cost.submitted;
}

bool TokenStream::has_news() const {
  return !progress_.tokens.empty() || progress_.num_read ||
         (progress_.end.has_value() && !end_taken_);
}

TokenProgress TokenStream::take() {
  const std::lock_guard lock(mutex_);
  TokenProgress taken;
  taken.tokens.swap(progress_.tokens);
  taken.logprobs.swap(progress_.logprobs);
  // They are set before the first token is pushed, and a look may come between.
  if (!taken.tokens.empty()) taken.prompt_logprobs.swap(progress_.prompt_logprobs);
  taken.num_read = std::exchange(progress_.num_read, std::nullopt);
  taken.read_at = progress_.read_at;
  taken.end = progress_.end;
  taken.error = progress_.error;
  taken.cost = progress_.cost;
  end_taken_ = end_taken_ || taken.end.has_value();
  return taken;
}

void TokenStream::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, limit, [this] { return has_news(); });
}

void TokenStream::cancel() {
  SequenceKey key;
  {
    const std::lock_guard lock(mutex_);
    if (progress_.end) return;
    key = key_;
  }
  if (inbox_ != nullptr) inbox_->cancel(key);
}

void TokenStream::detach() {
  const std::lock_guard lock(mutex_);
  ready_ = nullptr;
}

void TokenStream::attach(const SequenceKey& key) {
  const std::lock_guard lock(mutex_);
  key_ = key;
}

void TokenStream::leave_queue() {
  if (inbox_ != nullptr) inbox_->leave_queue();
}

void TokenStream::mark_scheduled(Clock::time_point now, int64_t cached_tokens) {
  const std::lock_guard lock(mutex_);
  Cost& cost = progress_.cost;
  cost.scheduled = cost.first_token = cost.last_token = now;
  cost.cached_tokens = cached_tokens;
}

void TokenStream::push(int32_t token, std::optional<PositionLogprobs> logprobs,
                       Clock::time_point now, const Work& work) {
  const std::lock_guard lock(mutex_);
  Cost& cost = progress_.cost;
  if (cost.first_token == cost.scheduled) cost.first_token = now;
  cost.last_token = now;
  cost.work = work;
  progress_.tokens.push_back(token);
  if (logprobs) progress_.logprobs.push_back(*std::move(logprobs));
  news_.notify_all();
  if (ready_) ready_();
}

void TokenStream::tell_read(int64_t num_tokens, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (num_tokens <= most_read_) return;  // it was preempted, and reads again
  progress_.num_read = most_read_ = num_tokens;
  progress_.read_at = now;
  news_.notify_all();
  if (ready_) ready_();
}

void TokenStream::set_prompt_logprobs(std::vector<PositionLogprobs> logprobs) {
  const std::lock_guard lock(mutex_);
  progress_.prompt_logprobs = std::move(logprobs);
}

void TokenStream::finish(End end, std::optional<Error> error, const Work& work) {
  const std::lock_guard lock(mutex_);
  progress_.end = end;
  progress_.error = std::move(error);
  progress_.cost.work = work;
  news_.notify_all();
  if (ready_) ready_();
}

}  // namespace stoker::engine
