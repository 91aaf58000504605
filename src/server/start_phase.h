// How far a start is, for those who ask before it is done.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "stoker/engine.h"

namespace stoker {

/// The latest Progress of a start, and since when its phase lasts. One thread at a time.
class StartPhase {
 public:
  using Clock = std::chrono::steady_clock;

  void set(const Progress& progress, Clock::time_point now);

  const std::string& name() const { return progress_.phase; }  ///< at first "starting"
  double fraction() const { return progress_.fraction; }       ///< of the phase, 0 to 1

  /// Seconds until the phase ends if it goes on as it did; none before anything can be said.
  std::optional<double> seconds_left(Clock::time_point now) const;

  /// "packing weights, 43 %".
  std::string text() const;

 private:
  Progress progress_{"starting", 0, 0};
  Clock::time_point begin_;
  double first_fraction_ = 0;
};

}  // namespace stoker
