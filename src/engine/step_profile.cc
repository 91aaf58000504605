#include "engine/step_profile.h"

#include <utility>

namespace stoker::engine {

bool StepProfile::start() {
  const std::lock_guard lock(mutex_);
  if (is_on()) return false;
  steps_ = {};
  is_on_.store(true);
  return true;
}

std::optional<StepProfile::Steps> StepProfile::stop() {
  const std::lock_guard lock(mutex_);
  if (!is_on()) return std::nullopt;
  is_on_.store(false);
  return std::exchange(steps_, {});
}

void StepProfile::add(const StepRecord& record) {
  const std::lock_guard lock(mutex_);
  if (!is_on()) return;
  if (steps_.records.size() < kMaxSteps) {
    steps_.records.push_back(record);
  } else {
    ++steps_.num_left_out;
  }
}

}  // namespace stoker::engine
