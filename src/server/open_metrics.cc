#include "server/open_metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "server/http_text.h"

namespace stoker {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr std::string_view kTotal = "_total";

// Canonical: the shortest digits that mean the same, and a float is seen to be one ("1.0").
std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char digits[32];
  const auto end =
      std::to_chars(std::begin(digits), std::end(digits), value, std::chars_format::general);
  std::string text(digits, end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

void append_labels(std::string& out, const Labels& labels) {
  if (labels.empty()) return;
  char before = '{';
  for (const ClientMetric::Label& label : labels) {
    out.append(1, before)
        .append(label.name)
        .append("=\"")
        .append(escaped(label.value))
        .append("\"");
    before = ',';
  }
  out += '}';
}

void append_sample(std::string& out, const std::string& name, const Labels& labels,
                   const std::string& value) {
  out += name;
  append_labels(out, labels);
  out.append(" ").append(value).append("\n");
}

// The bucket without a bound is always there, and last.
void append_histogram(std::string& out, const std::string& name, const ClientMetric& metric) {
  Labels labels = metric.label;
  labels.push_back({"le", ""});
  bool has_all = false;
  for (const ClientMetric::Bucket& bucket : metric.histogram.bucket) {
    labels.back().value = number_text(bucket.upper_bound);
    has_all = std::isinf(bucket.upper_bound);
    append_sample(out, name + "_bucket", labels, std::to_string(bucket.cumulative_count));
  }
  const std::string count = std::to_string(metric.histogram.sample_count);
  labels.back().value = "+Inf";
  if (!has_all) append_sample(out, name + "_bucket", labels, count);
  append_sample(out, name + "_count", metric.label, count);
  append_sample(out, name + "_sum", metric.label, number_text(metric.histogram.sample_sum));
}

void append_metric(std::string& out, const std::string& name, MetricType type,
                   const ClientMetric& metric) {
  switch (type) {
    case MetricType::Counter:
      return append_sample(out, name + std::string(kTotal), metric.label,
                           number_text(metric.counter.value));
    case MetricType::Gauge:
      return append_sample(out, name, metric.label, number_text(metric.gauge.value));
    case MetricType::Histogram:
      return append_histogram(out, name, metric);
    default:
      CHECK(false, "no family has another type");
  }
}

const char* type_name(MetricType type) {
  if (type == MetricType::Counter) return "counter";
  return type == MetricType::Gauge ? "gauge" : "histogram";
}

// Takes what stands before the next separator off the text.
std::string_view next_part(std::string_view& text, char separator) {
  const size_t size = std::min(text.find(separator), text.size());
  const std::string_view part = trim(text.substr(0, size));
  text.remove_prefix(std::min(size + 1, text.size()));
  return part;
}

// "type/subtype; version=V; q=Q".
struct MediaRange {
  std::string type, version;
  double quality = 1;
};

MediaRange read_range(std::string_view text) {
  MediaRange range;
  range.type = lower_case(next_part(text, ';'));
  while (!text.empty()) {
    std::string_view value = next_part(text, ';');
    const std::string name = lower_case(next_part(value, '='));
    if (name == "version") range.version = value;
    if (name != "q") continue;
    double quality = 0;
    std::from_chars(value.data(), value.data() + value.size(), quality);
    range.quality = quality >= 0 && quality <= 1 ? quality : 0;
  }
  return range;
}

}  // namespace

std::string open_metrics_text(const std::vector<MetricFamily>& families) {
  std::string out;
  for (const MetricFamily& family : families) {
    std::string name = family.name;
    if (family.type == MetricType::Counter && std::string_view(name).ends_with(kTotal))
      name.resize(name.size() - kTotal.size());
    out.append("# HELP ").append(name).append(" ").append(escaped(family.help)).append("\n");
    out.append("# TYPE ").append(name).append(" ").append(type_name(family.type)).append("\n");
    for (const ClientMetric& metric : family.metric) append_metric(out, name, family.type, metric);
  }
  return out + "# EOF\n";
}

bool prefers_open_metrics(std::string_view accept) {
  double open = 0, plain = 0;
  while (!accept.empty()) {
    const MediaRange range = read_range(next_part(accept, ','));
    if (range.type == "text/plain") plain = std::max(plain, range.quality);
    if (range.type != "application/openmetrics-text") continue;
    if (range.version.empty() || range.version == "1.0.0") open = std::max(open, range.quality);
  }
  return open > 0 && open >= plain;
}

}  // namespace stoker
