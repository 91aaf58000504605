#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <utility>
#include <vector>

#include "server/engine_families.h"
#include "server/open_metrics.h"
#include "server/process_families.h"

namespace stoker {
namespace {

using Bounds = prometheus::Histogram::BucketBoundaries;

const Bounds kRequestSeconds = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800};
const Bounds kFineSeconds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1,  1.5, 2,
                             2.5,  3,     3.5,  4,     4.5, 5,    7.5, 10,   30, 60};
const Bounds kSizes = {100, 1000, 10'000, 100'000, 1'000'000, 10'000'000};
const Bounds kChoiceCounts = {1, 2, 5, 10, 20};

template <class Builder>
auto& family(prometheus::Registry& registry, Builder builder, const char* name, const char* help) {
  return builder.Name(name).Help(help).Register(registry);
}

std::string status_class(int status) {
  return std::to_string(status / 100) + "xx";
}

}  // namespace

MetricsForm metrics_form_of(std::string_view accept) {
  return prefers_open_metrics(accept) ? MetricsForm::kOpenMetrics : MetricsForm::kText;
}

const char* content_type_of(MetricsForm form) {
  return form == MetricsForm::kOpenMetrics ? kOpenMetricsType
                                           : "text/plain; version=0.0.4; charset=utf-8";
}

struct ServerMetrics::Impl {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests =
      family(registry, prometheus::BuildCounter(), "http_requests_total", "Requests answered.");
  prometheus::Family<prometheus::Histogram>& seconds =
      family(registry, prometheus::BuildHistogram(), "http_request_duration_seconds",
             "From a request's head to the end of its answer.");
  prometheus::Family<prometheus::Histogram>& fine_seconds =
      family(registry, prometheus::BuildHistogram(), "http_request_duration_highr_seconds",
             "The same, of all handlers together, in narrower buckets.");
  prometheus::Family<prometheus::Histogram>& request_bytes = family(
      registry, prometheus::BuildHistogram(), "http_request_size_bytes", "Bodies of requests.");
  prometheus::Family<prometheus::Histogram>& response_bytes =
      family(registry, prometheus::BuildHistogram(), "http_response_size_bytes", "Answers.");
  prometheus::Histogram choices{kChoiceCounts};
};

ServerMetrics::ServerMetrics() : impl_(std::make_unique<Impl>()) {}
ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::count(const Exchange& exchange) {
  const std::string& handler = exchange.handler;
  const std::map<std::string, std::string> labels = {
      {"handler", handler}, {"method", exchange.method}, {"status", status_class(exchange.status)}};
  impl_->requests.Add(labels).Increment();
  impl_->seconds.Add({{"handler", handler}, {"method", exchange.method}}, kRequestSeconds)
      .Observe(exchange.seconds);
  impl_->fine_seconds.Add({}, kFineSeconds).Observe(exchange.seconds);
  impl_->request_bytes.Add({{"handler", handler}}, kSizes)
      .Observe(static_cast<double>(exchange.request_bytes));
  impl_->response_bytes.Add({{"handler", handler}}, kSizes)
      .Observe(static_cast<double>(exchange.response_bytes));
}

void ServerMetrics::count_choices(int n) {
  impl_->choices.Observe(n);
}

std::string ServerMetrics::text(const Engine* engine, const std::string& model_name,
                                MetricsForm form) const {
  std::vector<prometheus::MetricFamily> families;
  if (engine != nullptr) {
    families = engine_families(engine->stats(), model_name);
    append_family(families, "request_params_n", "Choices that requests asked for.",
                  prometheus::MetricType::Histogram, {impl_->choices.Collect()}, model_name);
  }
  for (prometheus::MetricFamily& family : impl_->registry.Collect())
    families.push_back(std::move(family));
  for (prometheus::MetricFamily& family : process_families()) families.push_back(std::move(family));
  if (form == MetricsForm::kOpenMetrics) return open_metrics_text(families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace stoker
