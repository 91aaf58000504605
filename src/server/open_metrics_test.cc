#include "server/open_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "server/engine_families.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using ::testing::EndsWith;
using ::testing::HasSubstr;

using Samples = std::map<std::string, std::string>;  // "name{labels}" to value

// A bound is a number, however it is written.
std::string with_plain_bound(const std::string& sample) {
  static const std::regex kBound(R"re((.*)le="([^"]*)"(.*))re");
  std::smatch match;
  if (!std::regex_match(sample, match, kBound)) return sample;
  return match[1].str() + "le=" + std::to_string(std::stod(match[2])) + match[3].str();
}

// Reads an exposition as its grammar has it, and what the types ask for.
class StrictReader {
 public:
  Samples read(const std::string& text) {
    EXPECT_THAT(text, EndsWith("\n# EOF\n"));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_FALSE(is_ended_) << "behind the end: " << line;
      read_line(line);
    }
    EXPECT_TRUE(is_ended_);
    return samples_;
  }

 private:
  void read_line(const std::string& line) {
    static const std::regex kHelp(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ((?:[^\\"]|\\[\\"n])*))");
    static const std::regex kType(R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram))");
    static const std::regex kSample(
        R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^\\"]|\\[\\"n])*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^\\"]|\\[\\"n])*")*\})? (NaN|[+-]Inf|-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?))re");
    std::smatch match;
    if (line == "# EOF") {
      is_ended_ = true;
    } else if (std::regex_match(line, match, kHelp)) {
      family_ = match[1];
      EXPECT_TRUE(families_.insert(family_).second) << "twice: " << line;
      type_.clear();
    } else if (std::regex_match(line, match, kType)) {
      EXPECT_EQ(match[1], family_);
      type_ = match[2];
      EXPECT_FALSE(type_ == "counter" && family_.ends_with("_total")) << line;
    } else if (std::regex_match(line, match, kSample)) {
      take(match[1], match[2], match[3]);
    } else {
      ADD_FAILURE() << "no line of OpenMetrics: " << line;
    }
  }

  void take(const std::string& name, const std::string& labels, const std::string& value) {
    static const std::map<std::string, std::set<std::string>> kSuffixes = {
        {"counter", {"_total"}}, {"gauge", {""}}, {"histogram", {"_bucket", "_count", "_sum"}}};
    ASSERT_EQ(name.substr(0, family_.size()), family_);
    EXPECT_EQ(kSuffixes.at(type_).count(name.substr(family_.size())), 1U) << type_ << " " << name;
    static const std::regex kFloat(R"re(.*le="(\+Inf|[^"]*[.e][^"]*)".*)re");
    EXPECT_TRUE(!name.ends_with("_bucket") || std::regex_match(labels, kFloat)) << labels;
    EXPECT_TRUE(samples_.emplace(with_plain_bound(name + labels), value).second) << name << labels;
  }

  std::string family_, type_;
  std::set<std::string> families_;
  Samples samples_;
  bool is_ended_ = false;
};

Samples samples_of_text_format(const std::vector<MetricFamily>& families) {
  Samples samples;
  std::istringstream lines(prometheus::TextSerializer().Serialize(families));
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = line.rfind(' ');
    if (line[0] != '#') samples[with_plain_bound(line.substr(0, blank))] = line.substr(blank + 1);
  }
  return samples;
}

MetricFamily family_of(const std::string& name, MetricType type, const ClientMetric& metric) {
  return {name, "A \"help\"\nwith \\ in it.", type, {metric}};
}

TEST(OpenMetrics, HoldsWhatTheTextFormatHolds) {
  EngineStats stats;
  stats.num_running = 3;
  stats.total_prompt_tokens = 123'456'789;
  stats.total_cached_tokens = 40;
  stats.accepted_at = {4, 2};
  stats.token_seconds = {{0.0001, 0.1, 1, 100'000, 1'000'000}, {7, 2, 1, 0, 0, 4}, 14, 0.5};
  stats.step_rows = {{1, 2}, {0, 0, 0}, 0, 0};
  const auto families = engine_families(stats, "m\"x\\y\nz");
  const Samples expected = samples_of_text_format(families);
  const Samples found = StrictReader().read(open_metrics_text(families));
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_EQ(found.count(name), 1U) << name;
    EXPECT_EQ(std::stod(found.at(name)), std::stod(value)) << name;
  }
}

TEST(OpenMetrics, WritesItsBytes) {
  ClientMetric counter;
  counter.label = {{"who", "a\"b\\c\nd"}, {"engine", "0"}};
  counter.counter.value = 1e9;
  ClientMetric gauge;
  gauge.gauge.value = std::numeric_limits<double>::quiet_NaN();
  ClientMetric histogram;
  histogram.histogram = {5, 1.5, {{2, 0.25}, {4, 1}, {4, 100'000}, {4, 1e6}}};
  ClientMetric cold;
  cold.gauge.value = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(open_metrics_text({family_of("a_total", MetricType::Counter, counter),
                               family_of("b_total", MetricType::Gauge, gauge),
                               family_of("c", MetricType::Histogram, histogram),
                               family_of("d", MetricType::Gauge, cold)}),
            R"(# HELP a A \"help\"\nwith \\ in it.
# TYPE a counter
a_total{who="a\"b\\c\nd",engine="0"} 1e+09
# HELP b_total A \"help\"\nwith \\ in it.
# TYPE b_total gauge
b_total NaN
# HELP c A \"help\"\nwith \\ in it.
# TYPE c histogram
c_bucket{le="0.25"} 2
c_bucket{le="1.0"} 4
c_bucket{le="100000.0"} 4
c_bucket{le="1e+06"} 4
c_bucket{le="+Inf"} 5
c_count 5
c_sum 1.5
# HELP d A \"help\"\nwith \\ in it.
# TYPE d gauge
d -Inf
# EOF
)");
}

TEST(OpenMetrics, IsForWhoAsksForIt) {
  const char* const asked[] = {
      "application/openmetrics-text",
      "Application/OpenMetrics-Text; version=1.0.0; charset=utf-8",
      // Prometheus 2.42.
      "application/openmetrics-text;version=1.0.0,application/"
      "openmetrics-text;version=0.0.1;q=0.75,"
      "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
      "text/plain;q=0.5, application/openmetrics-text;q=0.5",
  };
  for (const char* accept : asked) EXPECT_TRUE(prefers_open_metrics(accept)) << accept;
  const char* const not_asked[] = {"",
                                   "*/*",
                                   "text/plain",
                                   "application/*",
                                   "application/openmetrics-text;q=0",
                                   "application/openmetrics-text;q=7",
                                   "application/openmetrics-text;q=nan",
                                   "application/openmetrics-text;version=0.0.1",
                                   "application/openmetrics-text;q=0.4, text/plain",
                                   ",;=,;q=,=;"};
  for (const char* accept : not_asked) EXPECT_FALSE(prefers_open_metrics(accept)) << accept;
}

TEST_F(ServerTest, MetricsHaveTwoForms) {
  start(hello);
  ask(post("/v1/completions", R"({"prompt":"hi"})"));
  const HttpReply reply = ask(get("/metrics",
                                  "Accept: application/openmetrics-text; version=1.0.0\r\n"
                                  "Accept: text/plain; q=0.5\r\n"));
  EXPECT_EQ(reply.header("content-type"),
            "application/openmetrics-text; version=1.0.0; charset=utf-8");
  const Samples samples = StrictReader().read(reply.body);
  EXPECT_EQ(
      samples.at(R"(http_requests_total{handler="/v1/completions",method="POST",status="2xx"})"),
      "1.0");
  EXPECT_THAT(reply.body, HasSubstr("# TYPE process_cpu_seconds counter\n"));
  EXPECT_EQ(ask(get("/metrics", "Accept: text/plain\r\n")).header("content-type"),
            "text/plain; version=0.0.4; charset=utf-8");
}

}  // namespace
}  // namespace stoker
