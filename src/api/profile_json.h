// Steps as the document of events that Chrome and Perfetto show as a time line.
#pragma once

#include <string>

#include "engine/step_profile.h"

namespace stoker {

/// {"traceEvents": [...]}: each step with its numbers, and within it its parts; times in
/// microseconds since the first one.
std::string profile_json(const engine::StepProfile::Steps& steps);

}  // namespace stoker
