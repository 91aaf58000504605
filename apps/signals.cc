#include "signals.h"

#include <semaphore.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace stoker {
namespace {

// Handlers have no other way to reach those who wait.
std::atomic<int> interrupt_descriptor = -1;
static_assert(std::atomic<int>::is_always_lock_free, "needed in a signal handler");

struct Semaphore {
  Semaphore() { sem_init(&value, 0, 0); }
  sem_t value;
};
Semaphore server_signals;
std::atomic<bool> stop_wanted = false;
std::atomic<bool> reload_wanted = false;
std::atomic<bool> report_wanted = false;
std::atomic<bool> quiesce_wanted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "needed in a signal handler");

void note_interrupt(int /*signal*/) {
  const int error = errno;
  eventfd_write(interrupt_descriptor, 1);
  errno = error;
}

void set_handler(int signal, void (*handler)(int), int flags, struct sigaction* before) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, before);
}

void note_shutdown(int /*signal*/) {
  const int error = errno;
  set_handler(SIGINT, SIG_DFL, 0, nullptr);
  set_handler(SIGTERM, SIG_DFL, 0, nullptr);
  stop_wanted = true;
  sem_post(&server_signals.value);
  errno = error;
}

void note_wish(int signal) {
  const int error = errno;
  (signal == SIGHUP ? reload_wanted : signal == SIGUSR1 ? report_wanted : quiesce_wanted) = true;
  sem_post(&server_signals.value);
  errno = error;
}

}  // namespace

InterruptGuard::InterruptGuard(Second second, Signals signals)
    : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), signals_(signals) {
  interrupt_descriptor = descriptor_;
  const int flags = second == Second::kEndsProcess ? static_cast<int>(SA_RESETHAND) : 0;
  set_handler(SIGINT, note_interrupt, flags | SA_RESTART, &before_);
  if (signals_ == Signals::kInterrupt) return;
  set_handler(SIGTERM, note_interrupt, flags | SA_RESTART, &terminate_before_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &before_, nullptr);
  if (signals_ == Signals::kInterruptAndTerminate) {
    sigaction(SIGTERM, &terminate_before_, nullptr);
  }
  close(descriptor_);
}

bool InterruptGuard::take() {
  eventfd_t count = 0;
  return eventfd_read(descriptor_, &count) == 0;
}

void note_server_signals() {
  set_handler(SIGINT, note_shutdown, SA_RESTART, nullptr);
  set_handler(SIGTERM, note_shutdown, SA_RESTART, nullptr);
  set_handler(SIGHUP, note_wish, SA_RESTART, nullptr);
  set_handler(SIGUSR1, note_wish, SA_RESTART, nullptr);
  set_handler(SIGUSR2, note_wish, SA_RESTART, nullptr);
}

ServerSignal wait_for_server_signal() {
  while (true) {
    if (sem_wait(&server_signals.value) != 0) continue;  // interrupted
    if (stop_wanted) return ServerSignal::kStop;
    if (reload_wanted.exchange(false)) return ServerSignal::kReload;
    if (quiesce_wanted.exchange(false)) return ServerSignal::kQuiesce;
    if (report_wanted.exchange(false)) return ServerSignal::kReport;
  }
}

void end_signal_wait() {
  stop_wanted = true;
  sem_post(&server_signals.value);
}

}  // namespace stoker
