// Tells on standard error how far something long is, such as the loading of a model.
#pragma once

#include <chrono>
#include <string>

#include "stoker/engine.h"

namespace stoker {

/// Silent for the first two seconds. Then one line that rewrites itself on a terminal; elsewhere a
/// line for each phase and every ten seconds. Rate and time left are those of the phase so far.
/// Used by one thread.
class LoadingProgress {
 public:
  LoadingProgress();
  LoadingProgress(const LoadingProgress&) = delete;
  LoadingProgress& operator=(const LoadingProgress&) = delete;
  ~LoadingProgress();  ///< takes the line away

  void update(const Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  bool is_terminal_;
  bool has_line_ = false;
  Clock::time_point start_;
  Clock::time_point phase_start_;
  Clock::time_point printed_;
  std::string phase_;
  bool is_phase_told_ = false;
};

}  // namespace stoker
