#include "loading.h"

#include <unistd.h>

#include <cstdio>

namespace stoker {
namespace {

constexpr std::chrono::seconds kSilence{2};
constexpr std::chrono::milliseconds kTerminalPeriod{100};
constexpr std::chrono::milliseconds kLinePeriod{10'000};

}  // namespace

LoadingProgress::LoadingProgress()
    : is_terminal_(isatty(STDERR_FILENO) == 1), start_(Clock::now()) {}

LoadingProgress::~LoadingProgress() {
  if (has_line_ && is_terminal_) std::fputs("\r\x1b[K", stderr);
}

void LoadingProgress::update(const std::string& phase, double fraction) {
  const Clock::time_point now = Clock::now();
  if (now - start_ < kSilence) return;
  const bool is_due = now - printed_ >= (is_terminal_ ? Clock::duration(kTerminalPeriod)
                                                      : Clock::duration(kLinePeriod));
  if (has_line_ && phase == phase_ && !is_due) return;
  std::fprintf(stderr, is_terminal_ ? "\rstoker: %s %.0f %%\x1b[K" : "stoker: %s %.0f %%\n",
               phase.c_str(), fraction * 100);
  has_line_ = true;
  printed_ = now;
  phase_ = phase;
}

}  // namespace stoker
