// OpenMetrics 1.0.0, the other form in which /metrics tells its families: Prometheus' client
// library writes its text format 0.0.4 alone.
// Source: https://prometheus.io/docs/specs/om/open_metrics_spec/.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <string_view>
#include <vector>

namespace stoker {

constexpr const char* kOpenMetricsType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counters, gauges and histograms without timestamps, which is what there is here. A counter's
/// family is called as its samples are, without their "_total".
std::string open_metrics_text(const std::vector<prometheus::MetricFamily>& families);

/// Whether an Accept header names OpenMetrics, of this version or of none, and prefers nothing of
/// "text/plain" to it. What it takes in general ("*/*") does not count.
bool prefers_open_metrics(std::string_view accept);

}  // namespace stoker
