#include "server/retry_after.h"

#include <algorithm>
#include <cmath>

namespace stoker {
namespace {

constexpr double kMostSeconds = 60;
constexpr double kNewShare = 1.0 / 16;  // of the mean that the latest one has

}  // namespace

int retry_after_seconds(std::optional<double> wait_seconds) {
  return static_cast<int>(std::ceil(std::clamp(wait_seconds.value_or(1), 1.0, kMostSeconds)));
}

void RunTimes::add(double seconds) {
  mean_seconds_ = mean_seconds_ ? *mean_seconds_ + kNewShare * (seconds - *mean_seconds_) : seconds;
}

std::optional<double> RunTimes::seconds_to_work_off(const EngineStats& stats) const {
  if (!mean_seconds_) return std::nullopt;
  const auto waiting = static_cast<double>(stats.num_waiting);
  const auto at_a_time = static_cast<double>(std::max<int64_t>(stats.num_running, 1));
  return *mean_seconds_ * waiting / at_a_time;
}

}  // namespace stoker
