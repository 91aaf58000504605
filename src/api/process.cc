#include "stoker/process.h"

#include <unistd.h>

#include <csignal>
#include <cstddef>

namespace stoker {
namespace {

// Only functions that are safe in a signal handler.
void on_bus_error(int /*signal*/) {
  constexpr char kMessage[] =
      "stoker: a file of the checkpoint or of the store was shortened or cannot be read any more; "
      "stopping\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  ::_exit(3);
}

}  // namespace

void install_mapping_guard() {
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace stoker
