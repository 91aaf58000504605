// What must hold between the values of config.json.
#pragma once

#include <optional>

#include "checkpoint/config.h"
#include "stoker/error.h"

namespace stoker {

/// The first contradiction in a config whose values are each in range, or none. kUnsupported where
/// the reference itself has no meaning for the combination but another engine might; else
/// kInvalidArgument.
std::optional<Error> check_config(const ModelConfig& config);

}  // namespace stoker
