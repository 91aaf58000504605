// Tells one waiting reader that there is something new. For threads that must not wait themselves.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace stoker {

/// Set from any thread, waited for by one reader.
class News {
 public:
  void set() {
    {
      const std::lock_guard lock(mutex_);
      is_set_ = true;
    }
    changed_.notify_one();
  }

  /// Waits until it is set or the limit has passed; unset afterwards.
  void wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [this] { return is_set_; });
    is_set_ = false;
  }

 private:
  std::mutex mutex_;  // guards is_set_
  std::condition_variable changed_;
  bool is_set_ = false;
};

}  // namespace stoker
