// TokenStream: what the engine thread tells one request, and the request's side of it.
#include "engine/token_stream.h"

namespace stoker::engine {

TokenStream::TokenStream(std::function<void()> ready) : ready_(std::move(ready)) {
  progress_.submitted = Clock::now();
  progress_.scheduled = progress_.submitted;
  progress_.first_token = progress_.submitted;
  progress_.last_token = progress_.submitted;
}

bool TokenStream::has_news() const {
  return !progress_.tokens.empty() || (progress_.end.has_value() && !end_taken_);
}

TokenProgress TokenStream::take() {
  const std::lock_guard lock(mutex_);
  TokenProgress taken = progress_;
  progress_.tokens.clear();
  end_taken_ = end_taken_ || taken.end.has_value();
  return taken;
}

void TokenStream::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, limit, [this] { return has_news(); });
}

void TokenStream::detach() {
  const std::lock_guard lock(mutex_);
  ready_ = nullptr;
}

void TokenStream::mark_scheduled(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  progress_.scheduled = now;
  progress_.first_token = now;
  progress_.last_token = now;
}

void TokenStream::push(int32_t token, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (progress_.first_token == progress_.scheduled) progress_.first_token = now;
  progress_.last_token = now;
  progress_.tokens.push_back(token);
  news_.notify_all();
  if (ready_) ready_();
}

void TokenStream::finish(End end, std::optional<Error> error) {
  const std::lock_guard lock(mutex_);
  progress_.end = end;
  progress_.error = std::move(error);
  news_.notify_all();
  if (ready_) ready_();
}

}  // namespace stoker::engine
