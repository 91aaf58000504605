#include "server/start_phase.h"

#include <algorithm>

namespace stoker {
namespace {

constexpr double kLeastSeconds = 0.5;  // of a phase, before its end is foretold

double seconds_since(StartPhase::Clock::time_point begin, StartPhase::Clock::time_point now) {
  return std::chrono::duration<double>(now - begin).count();
}

}  // namespace

void StartPhase::set(const Progress& progress, Clock::time_point now) {
  if (progress.phase != progress_.phase) {
    begin_ = now;
    first_fraction_ = progress.fraction;
  }
  progress_ = progress;
  progress_.fraction = std::clamp(progress.fraction, 0.0, 1.0);
}

std::optional<double> StartPhase::seconds_left(Clock::time_point now) const {
  const double done = progress_.fraction - first_fraction_;
  const double seconds = seconds_since(begin_, now);
  if (!(done > 0) || seconds < kLeastSeconds) return std::nullopt;
  return seconds / done * (1 - progress_.fraction);
}

std::string StartPhase::text() const {
  if (progress_.fraction <= 0) return progress_.phase;
  return progress_.phase + ", " + std::to_string(static_cast<int>(progress_.fraction * 100)) + " %";
}

}  // namespace stoker
