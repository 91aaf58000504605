#include "loading.h"

#include <unistd.h>

#include <cstdio>

#include "texts.h"

namespace stoker {
namespace {

constexpr std::chrono::seconds kSilence{2};
constexpr std::chrono::milliseconds kTerminalPeriod{100};
constexpr std::chrono::milliseconds kLinePeriod{10'000};

/// "packing weights 12 %, 812.3 MiB/s, 2:03 left"
std::string sentence(const Progress& progress, double seconds) {
  char percent[32];
  std::snprintf(percent, sizeof percent, " %.0f %%", progress.fraction * 100);
  std::string text = progress.phase + percent;
  if (progress.num_bytes == 0 || progress.fraction <= 0 || seconds <= 0) return text;
  const double done = progress.fraction * static_cast<double>(progress.num_bytes);
  text += ", " + size_text(static_cast<int64_t>(done / seconds)) + "/s";
  return text + ", " + clock_text(seconds / progress.fraction * (1 - progress.fraction)) + " left";
}

}  // namespace

LoadingProgress::LoadingProgress()
    : is_terminal_(isatty(STDERR_FILENO) == 1), start_(Clock::now()) {}

LoadingProgress::~LoadingProgress() {
  if (has_line_ && is_terminal_) std::fputs("\r\x1b[K", stderr);
}

void LoadingProgress::update(const Progress& progress) {
  const Clock::time_point now = Clock::now();
  if (progress.phase != phase_) {
    phase_ = progress.phase;
    phase_start_ = now;
    is_phase_told_ = false;
  }
  if (now - start_ < kSilence) return;
  const bool is_due = now - printed_ >= (is_terminal_ ? Clock::duration(kTerminalPeriod)
                                                      : Clock::duration(kLinePeriod));
  if (is_phase_told_ && !is_due) return;
  const double seconds = std::chrono::duration<double>(now - phase_start_).count();
  std::fprintf(stderr, is_terminal_ ? "\rstoker: %s\x1b[K" : "stoker: %s\n",
               sentence(progress, seconds).c_str());
  has_line_ = is_phase_told_ = true;
  printed_ = now;
}

}  // namespace stoker
