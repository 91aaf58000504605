// When a client that is refused should ask again, from what is known of the queue and the start:
// too early costs a refusal more, too late leaves places empty.
#pragma once

#include <optional>

#include "stoker/stats.h"

namespace stoker {

/// Where nothing that the server knows ends the wait: it is paused, stopping, or has stopped.
constexpr int kLongRetrySeconds = 10;

/// What Retry-After says of that wait: whole seconds, from 1 to 60; 1 where nothing is known.
int retry_after_seconds(std::optional<double> wait_seconds);

/// How long requests run, of the latest ones. One thread at a time.
class RunTimes {
 public:
  /// One that ended: from its first step to its last token.
  void add(double seconds);

  /// None before one has ended.
  std::optional<double> mean_seconds() const { return mean_seconds_; }

  /// Until those that wait have run too, by as many at a time as run now.
  std::optional<double> seconds_to_work_off(const EngineStats& stats) const;

 private:
  std::optional<double> mean_seconds_;
};

}  // namespace stoker
