// What /metrics tells: the engine's numbers under the names that vLLM gave them and under our own,
// requests as HTTP sees them, and the process. Prometheus' client library stays behind metrics.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "stoker/engine.h"

namespace stoker {

/// Prometheus' text format 0.0.4, or OpenMetrics 1.0.0.
enum class MetricsForm { kText, kOpenMetrics };

/// The form that an Accept header asks for.
MetricsForm metrics_form_of(std::string_view accept);

/// Its media type.
const char* content_type_of(MetricsForm form);

/// Counts what the server does. One thread at a time.
class ServerMetrics {
 public:
  ServerMetrics();
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  /// One request that was answered. A plain value.
  struct Exchange {
    std::string handler;  ///< its route; "none" for a path that there is not
    std::string method;
    int status = 200;
    double seconds = 0;  ///< from its head to the end of its answer
    size_t request_bytes = 0;
    size_t response_bytes = 0;
  };
  void count(const Exchange& exchange);

  /// Choices that a request for the engine asks for.
  void count_choices(int n);

  /// All of it. engine: may be null. model_name: the first served name.
  std::string text(const Engine* engine, const std::string& model_name,
                   MetricsForm form = MetricsForm::kText) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
