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
Semaphore shutdown_signals;

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
  sem_post(&shutdown_signals.value);
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

void note_shutdown_signals() {
  set_handler(SIGINT, note_shutdown, SA_RESTART, nullptr);
  set_handler(SIGTERM, note_shutdown, SA_RESTART, nullptr);
}

void wait_for_shutdown_signal() {
  while (sem_wait(&shutdown_signals.value) != 0 && errno == EINTR) {
  }
}

void end_shutdown_wait() {
  sem_post(&shutdown_signals.value);
}

}  // namespace stoker
