// What is read of what programs and the system say about images of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "stoker/image_probe.h"

namespace stoker {

/// The first two numbers behind `label`, "4.2" as {4, 2}: of what `criu --version` says behind
/// "Version: ", of a kernel's release behind "". None where there are none of at most six digits.
std::optional<std::pair<int, int>> version_in(std::string_view text, std::string_view label);

/// Whether /proc/PID/status has a capability among the effective ones.
bool has_capability(std::string_view status, int capability);

}  // namespace stoker
