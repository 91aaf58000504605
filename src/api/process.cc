#include "stoker/process.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "base/mapping_name.h"

namespace stoker {
namespace {

std::atomic<bool> is_ending = false;

// A line of text that is put together in a signal handler: no memory, no locks.
class SignalLine {
 public:
  void add(const char* text) {
    while (*text != '\0' && end_ < sizeof text_) text_[end_++] = *text++;
  }
  void add(uint64_t number) {
    end_ =
        static_cast<size_t>(std::to_chars(text_ + end_, text_ + sizeof text_, number).ptr - text_);
  }
  void write() const { [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text_, end_); }

 private:
  char text_[512];
  size_t end_ = 0;
};

// Only functions that are safe in a signal handler.
void on_bus_error(int /*signal*/, siginfo_t* what, void* /*context*/) {
  if (is_ending.exchange(true)) {  // another thread tells
    while (true) ::pause();
  }
  SignalLine line;
  line.add("stoker: ");
  if (const auto found = find_mapping(what->si_addr)) {
    line.add(found->name);
    line.add(", offset ");
    line.add(found->offset);
  } else {
    line.add("a mapped file");
  }
  line.add(": the file was shortened, or storage cannot read it any more; stopping\n");
  line.write();
  ::_exit(kDamagedExitCode);
}

}  // namespace

void install_mapping_guard() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace stoker
