// The engine's numbers as Prometheus' families, each under vLLM's name ("vllm:...") and ours
// ("stoker_...").
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "stoker/stats.h"

namespace stoker {

/// All of them, labelled with the model's name and engine "0".
std::vector<prometheus::MetricFamily> engine_families(const EngineStats& stats,
                                                      const std::string& model_name);

/// Adds one family under both names, its metrics with these labels beside their own.
void append_family(std::vector<prometheus::MetricFamily>& families, const std::string& name,
                   const std::string& help, prometheus::MetricType type,
                   std::vector<prometheus::ClientMetric> metrics, const std::string& model_name);

}  // namespace stoker
