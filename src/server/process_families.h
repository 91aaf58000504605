// The process as Prometheus' families, under the names that its client libraries agree on.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

namespace stoker {

/// process_cpu_seconds_total, process_start_time_seconds, process_resident_memory_bytes,
/// process_virtual_memory_bytes, process_open_fds, process_max_fds. What the system does not tell
/// is left out.
std::vector<prometheus::MetricFamily> process_families();

}  // namespace stoker
