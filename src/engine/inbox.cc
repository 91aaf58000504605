#include "engine/inbox.h"

#include <string>
#include <utility>

#include "engine/sequence.h"

namespace stoker::engine {

Inbox::Inbox(int64_t max_queue) : max_queue_(max_queue) {}
Inbox::~Inbox() = default;

Result<void> Inbox::submit(std::vector<std::unique_ptr<Sequence>> sequences) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || is_asleep_ || num_queued_ >= max_queue_) {
      for (const auto& sequence : sequences) sequence->finished = true;  // nobody waits for it
      return why_refused();
    }
    for (auto& sequence : sequences) {
      sequence->key.arrival = next_arrival_++;
      sequence->stream->attach(sequence->key);
      mail_.arrivals.push_back(std::move(sequence));
      ++num_queued_;
    }
    is_idle_ = false;
  }
  work_.notify_all();
  return {};
}

Error Inbox::why_refused() const {
  if (fault_) return *fault_;
  if (closed_) return {ErrorCode::kCancelled, "the engine takes no more requests", ""};
  if (is_asleep_) return {ErrorCode::kResourceExhausted, "the engine sleeps: wake it up first", ""};
  return {ErrorCode::kOverloaded,
          std::to_string(max_queue_) + " requests are waiting already: try again later", ""};
}

void Inbox::cancel(const SequenceKey& key) {
  {
    const std::lock_guard lock(mutex_);
    mail_.cancels.push_back(key);
  }
  work_.notify_all();
}

void Inbox::cancel_all() {
  {
    const std::lock_guard lock(mutex_);
    mail_.cancel_all = true;
  }
  work_.notify_all();
}

void Inbox::reset_cache() {
  {
    const std::lock_guard lock(mutex_);
    mail_.reset_cache = true;
  }
  work_.notify_all();
}

bool Inbox::run(std::function<void()> work) {
  std::future<void> done;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return false;
    done = mail_.errands.emplace_back(Errand{std::move(work), {}}).done.get_future();
  }
  work_.notify_all();
  done.get();
  return true;
}

void Inbox::end() {
  const std::lock_guard lock(mutex_);
  closed_ = ended_ = true;
}

void Inbox::sleep(std::function<void()> release) {
  {
    const std::lock_guard lock(mutex_);
    is_asleep_ = true;
    mail_.release = std::move(release);
  }
  work_.notify_all();
}

void Inbox::wake_up() {
  {
    const std::lock_guard lock(mutex_);
    is_asleep_ = false;
    mail_.wake_up = true;
    mail_.release = nullptr;
  }
  work_.notify_all();
}

void Inbox::reopen() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = ended_ || fault_;
  }
  wake_up();
}

void Inbox::report(std::function<void(std::string_view line)> tell) {
  {
    const std::lock_guard lock(mutex_);
    mail_.report = std::move(tell);
  }
  work_.notify_all();
}

void Inbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void Inbox::fail(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (fault_) return;
    fault_ = mail_.fault = error;
    closed_ = true;
  }
  work_.notify_all();
}

bool Inbox::has_mail() const {
  return !mail_.arrivals.empty() || !mail_.cancels.empty() || mail_.cancel_all ||
         mail_.reset_cache || mail_.wake_up || mail_.release || mail_.report ||
         !mail_.errands.empty() || mail_.fault;
}

void Inbox::take(Mail& mail) {
  const std::lock_guard lock(mutex_);
  std::swap(mail, mail_);
}

bool Inbox::wait(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  return work_.wait(lock, stop, [this] { return has_mail(); }) && !stop.stop_requested();
}

void Inbox::leave_queue() {
  const std::lock_guard lock(mutex_);
  --num_queued_;
}

void Inbox::set_idle(bool idle) {
  const std::lock_guard lock(mutex_);
  is_idle_ = idle && mail_.arrivals.empty();
  if (is_idle_) idle_.notify_all();
}

bool Inbox::wait_idle(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, limit, [this] { return is_idle_; });
}

}  // namespace stoker::engine
