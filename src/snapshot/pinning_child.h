// A process beside a test that pins, as long as the test wants.
#pragma once

#include <csignal>
#include <cstdio>
#include <utility>

#include "snapshot/attach_fixture.h"
#include "snapshot/pin.h"

namespace stoker::snapshot {

/// A child of a test that pins and stays until it is ended.
class PinningChild {
 public:
  template <class Body>
  explicit PinningChild(const Body& body) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const Descriptor signals = *termination_signals();
      const Result<Pinned> pinned = body();
      const char said = pinned ? 'y' : 'n';
      if (!pinned) std::fprintf(stderr, "%s\n", pinned.error().message.c_str());
      if (::write(ends[1], &said, 1) != 1 || !pinned) ::_exit(1);
      (void)pinned->wait(signals.get());
      { const Pinned goes = std::move(const_cast<Pinned&>(*pinned)); }
      ::_exit(0);
    }
    char said = 0;
    EXPECT_EQ(::read(ends[0], &said, 1), 1);
    EXPECT_EQ(said, 'y');
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~PinningChild() { end(SIGKILL); }
  PinningChild(const PinningChild&) = delete;
  PinningChild& operator=(const PinningChild&) = delete;

  pid_t pid() const { return pid_; }

  /// Its exit code, or minus the signal that ended it.
  int end(int signal) {
    if (pid_ <= 0) return 0;
    ::kill(pid_, signal);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace stoker::snapshot
