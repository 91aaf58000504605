// Tells on standard error how far something long is, such as the loading of a model.
#pragma once

#include <chrono>
#include <string>

namespace stoker {

/// Silent for the first two seconds. Then one line that rewrites itself on a terminal; elsewhere a
/// line for each phase and every ten seconds. Used by one thread.
class LoadingProgress {
 public:
  LoadingProgress();
  LoadingProgress(const LoadingProgress&) = delete;
  LoadingProgress& operator=(const LoadingProgress&) = delete;
  ~LoadingProgress();  ///< takes the line away

  /// `fraction` of `phase` is done, 0 to 1.
  void update(const std::string& phase, double fraction);

 private:
  using Clock = std::chrono::steady_clock;

  bool is_terminal_;
  bool has_line_ = false;
  Clock::time_point start_;
  Clock::time_point printed_;
  std::string phase_;
};

}  // namespace stoker
