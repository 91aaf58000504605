// What other threads have for the engine's thread: new requests, cancellations, wishes. The one
// place where they meet; held for moments only.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "stoker/result.h"

namespace stoker::engine {

struct Sequence;

/// Something to be done between steps, for which somebody waits.
struct Errand {
  std::function<void()> work;
  std::promise<void> done;
};

/// The order in which sequences are served: lower first. Unique.
struct SequenceKey {
  int32_t priority = 0;
  int64_t arrival = 0;
  auto operator<=>(const SequenceKey&) const =
      default;  // NOLINT(modernize-use-nullptr): a false alarm
};

/// Shared by the step loop and every stream of it, so that a stream may outlive the loop.
class Inbox {
 public:
  /// What came since the last look.
  struct Mail {
    std::vector<std::unique_ptr<Sequence>> arrivals;
    std::vector<SequenceKey> cancels;
    bool cancel_all = false;
    bool reset_cache = false;
    std::vector<Errand> errands;
    bool wake_up = false;  ///< before `release`
    std::function<void()> release;
    std::function<void(std::string_view line)> report;
    std::optional<Error> fault;
  };

  explicit Inbox(int64_t max_queue);
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Queues the sequences of a request, all of them or none: as soon as there is room for one.
  /// Their arrival numbers are given here. Errors: kOverloaded, kCancelled after close(), the error
  /// of fail() after that, kResourceExhausted between sleep() and wake_up().
  Result<void> submit(std::vector<std::unique_ptr<Sequence>> sequences);
  void cancel(const SequenceKey& key);
  void cancel_all();
  void reset_cache();
  /// Has the engine's thread do `work` between two steps, and waits until it did: for the step that
  /// runs. What it throws is thrown here. False: it does nothing any more.
  bool run(std::function<void()> work);
  /// No arrivals until wake_up(); `release` is called on the engine's thread once nobody runs or
  /// waits any more, unless wake_up() comes before.
  void sleep(std::function<void()> release);
  void wake_up();
  /// wake_up(), also after close().
  void reopen();
  /// The engine's thread tells what runs and waits, line by line.
  void report(std::function<void(std::string_view line)> tell);
  /// No more arrivals.
  void close();
  /// Nor errands, after those of the next take().
  void end();
  /// No more arrivals, nor steps: whoever is here and whoever comes gets this error. Only the first
  /// one counts.
  void fail(const Error& error);

  // The engine's thread.
  /// Moves out what is there into the empty `mail`.
  void take(Mail& mail);
  /// Waits until there is mail or a stop is asked for; false: the latter.
  bool wait(const std::stop_token& stop);
  /// A queued sequence has started or gone.
  void leave_queue();
  /// Nothing is queued or runs now, or something does.
  void set_idle(bool idle);

  /// Sequences that arrived and never started. Waits for nobody.
  int64_t num_queued() const { return num_queued_.load(std::memory_order_relaxed); }
  /// Waits until all is done; false: not within the limit.
  bool wait_idle(std::chrono::milliseconds limit);

 private:
  bool has_mail() const;
  Error why_refused() const;

  const int64_t max_queue_;
  std::mutex mutex_;  // guards all below
  std::condition_variable_any work_;
  std::condition_variable idle_;
  Mail mail_;
  int64_t next_arrival_ = 0;
  std::atomic<int64_t> num_queued_{0};  // changed under the mutex
  bool closed_ = false;
  bool ended_ = false;
  bool is_asleep_ = false;
  std::optional<Error> fault_;
  bool is_idle_ = true;
};

}  // namespace stoker::engine
