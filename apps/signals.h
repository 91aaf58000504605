// Signals, noted instead of ending the process.
#pragma once

#include <csignal>

namespace stoker {

/// While it lives, SIGINT (Ctrl-C) is noted, whichever thread it reaches; SIGTERM too, if asked
/// for. One at a time.
class InterruptGuard {
 public:
  enum class Second { kIsNoted, kEndsProcess };
  enum class Signals { kInterrupt, kInterruptAndTerminate };

  /// `second`: what the second signal of a kind does.
  explicit InterruptGuard(Second second, Signals signals = Signals::kInterrupt);
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  /// Whether a signal came since the last call.
  bool take();

  /// Readable while take() would be true: for poll().
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;  ///< an eventfd
  Signals signals_;
  struct sigaction before_ {};
  struct sigaction terminate_before_ {};
};

/// From now on the first SIGINT or SIGTERM is noted; the next one ends the process at once. SIGHUP,
/// SIGUSR1 and SIGUSR2 are noted each time. Process-wide.
void note_server_signals();

enum class ServerSignal {
  kStop,     ///< SIGINT, SIGTERM, or end_signal_wait was called
  kReload,   ///< SIGHUP
  kReport,   ///< SIGUSR1
  kQuiesce,  ///< SIGUSR2
};

/// Waits until such a signal has come. Those of a kind that come before they are waited for may be
/// one.
ServerSignal wait_for_server_signal();
/// From any thread.
void end_signal_wait();

}  // namespace stoker
