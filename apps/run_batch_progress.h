// Tells on standard error how far a batch is.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "server/batch.h"

namespace stoker {

/// On a terminal one line that rewrites itself, elsewhere a line of key=value every ten seconds.
/// Used by one thread.
class BatchProgress {
 public:
  /// `total`: the requests of the input, where that is known.
  explicit BatchProgress(std::optional<int64_t> total);
  BatchProgress(const BatchProgress&) = delete;
  BatchProgress& operator=(const BatchProgress&) = delete;

  /// How often update() is to be called.
  std::chrono::milliseconds period() const;

  void update(const BatchCounts& counts);

  /// The last line: what became of the batch.
  void finish(const BatchCounts& counts, bool is_whole);

 private:
  using Clock = std::chrono::steady_clock;

  double elapsed_seconds() const;
  std::optional<double> seconds_left(const BatchCounts& counts) const;
  std::string values(const BatchCounts& counts) const;
  std::string sentence(const BatchCounts& counts) const;

  bool is_terminal_;
  std::optional<int64_t> total_;
  Clock::time_point start_;
};

}  // namespace stoker
