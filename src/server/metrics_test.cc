#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "server/engine_families.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The samples of Prometheus' text format, "name{labels}" to value. Fails on a line that is none.
std::map<std::string, double> samples_of(const std::string& text) {
  static const std::regex kSample(R"(([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{.*\})?) (\S+))");
  std::map<std::string, double> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::smatch match;
    EXPECT_TRUE(std::regex_match(line, match, kSample)) << line;
    if (!match.empty()) samples[match[1]] = std::stod(match[2]);
  }
  return samples;
}

TEST(Metrics, EnginesNumbersHaveBothNames) {
  EngineStats stats;
  stats.num_running = 3;
  stats.num_blocks = 8;
  stats.num_blocks_used = 2;
  stats.total_prompt_tokens = 100;
  stats.total_cached_tokens = 40;
  stats.total_length = 5;
  stats.accepted_at = {4, 2};
  stats.token_seconds = {{0.01, 0.1}, {7, 2, 1}, 10, 0.5};
  ScriptedEngine engine(hello);
  engine.set_stats(stats);
  const auto samples = samples_of(ServerMetrics().text(&engine, "m\"x"));
  const std::string who = R"(model_name="m\"x",engine="0")";
  for (const std::string prefix : {"vllm:", "stoker_"}) {
    const auto value = [&](const std::string& name, const std::string& labels = "") {
      const auto found = samples.find(prefix + name + "{" + labels + who + "}");
      EXPECT_NE(found, samples.end()) << prefix + name;
      return found == samples.end() ? -1 : found->second;
    };
    EXPECT_EQ(value("num_requests_running"), 3);
    EXPECT_EQ(value("kv_cache_usage_perc"), 0.25);
    EXPECT_EQ(value("request_success_total", R"(finished_reason="length",)"), 5);
    EXPECT_EQ(value("prompt_tokens_by_source_total", R"(source="local_compute",)"), 60);
    EXPECT_EQ(value("prefix_cache_hits_total"), 40);
    EXPECT_EQ(value("spec_decode_num_accepted_tokens_per_pos_total", R"(position="1",)"), 2);
    EXPECT_EQ(value("inter_token_latency_seconds_count"), 10);
    EXPECT_EQ(value("inter_token_latency_seconds_sum"), 0.5);
    const auto bucket = [&](const std::string& bound) {
      return samples.at(prefix + "inter_token_latency_seconds_bucket{" + who + ",le=\"" + bound +
                        "\"}");
    };
    EXPECT_EQ(bucket("0.01"), 7);
    EXPECT_EQ(bucket("0.1"), 9);
    EXPECT_EQ(bucket("+Inf"), 10);
  }
}

// What vLLM's example dashboard asks for.
TEST(Metrics, AllThatTheDashboardAsksForIsThere) {
  EngineStats stats;
  stats.token_seconds = {{0.01}, {0, 0}, 0, 0};
  ScriptedEngine engine(hello);
  engine.set_stats(stats);
  const std::string text = ServerMetrics().text(&engine, "m");
  for (const char* name :
       {"e2e_request_latency_seconds_bucket", "prompt_tokens_total", "generation_tokens_total",
        "inter_token_latency_seconds_bucket", "num_requests_running", "num_requests_waiting",
        "time_to_first_token_seconds_bucket", "kv_cache_usage_perc", "request_prompt_tokens_bucket",
        "request_generation_tokens_bucket", "request_success_total",
        "request_queue_time_seconds_sum", "request_prefill_time_seconds_sum",
        "request_decode_time_seconds_sum", "request_max_num_generation_tokens_sum",
        "iteration_tokens_total_bucket", "request_params_n_bucket", "cache_config_info"}) {
    EXPECT_THAT(text, HasSubstr("\nvllm:" + std::string(name) + "{")) << name;
  }
}

TEST(Metrics, ProcessIsThere) {
  const auto samples = samples_of(ServerMetrics().text(nullptr, ""));
  EXPECT_GT(samples.at("process_resident_memory_bytes"), 1e5);
  EXPECT_GE(samples.at("process_virtual_memory_bytes"),
            samples.at("process_resident_memory_bytes"));
  EXPECT_GT(samples.at("process_cpu_seconds_total"), 0);
  EXPECT_GE(samples.at("process_open_fds"), 3);
  EXPECT_GE(samples.at("process_max_fds"), samples.at("process_open_fds"));
  const double start = samples.at("process_start_time_seconds");
  const auto now = static_cast<double>(std::time(nullptr));
  EXPECT_LT(start, now + 2);
  EXPECT_GT(start, now - 3600);
}

TEST_F(ServerTest, MetricsCountRequests) {
  start(hello);
  ask(post("/v1/completions", R"({"prompt":"hi","n":1})"));
  ask(post("/v1/completions", R"({"prompt":7e})"));
  ask(get("/nothing"));
  const HttpReply reply = ask(get("/metrics"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  const auto samples = samples_of(reply.body);
  const auto count = [&](const std::string& labels) {
    return samples.at("http_requests_total{" + labels + "}");
  };
  EXPECT_EQ(count(R"(handler="/v1/completions",method="POST",status="2xx")"), 1);
  EXPECT_EQ(count(R"(handler="/v1/completions",method="POST",status="4xx")"), 1);
  EXPECT_EQ(count(R"(handler="none",method="-",status="4xx")"), 1);
  EXPECT_EQ(
      samples.at(R"(http_request_duration_seconds_count{handler="/v1/completions",method="POST"})"),
      2);
  EXPECT_THAT(reply.body, Not(HasSubstr("/nothing")));
}

// Of a request that has no head too: its time is not that since the machine's start.
TEST_F(ServerTest, MetricsTimeWhatIsNoRequest) {
  start(hello);
  EXPECT_EQ(ask("NO REQUEST\r\n\r\n").status, 400);
  const auto samples = samples_of(ask(get("/metrics")).body);
  EXPECT_EQ(samples.at(R"(http_request_duration_seconds_count{handler="none",method="-"})"), 1);
  EXPECT_LT(samples.at(R"(http_request_duration_seconds_sum{handler="none",method="-"})"), 60);
}

}  // namespace
}  // namespace stoker
