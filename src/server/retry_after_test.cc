#include "server/retry_after.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "server/server_fixture.h"

namespace stoker {
namespace {

TEST(RetryAfter, IsWholeSecondsInItsRange) {
  EXPECT_EQ(retry_after_seconds(std::nullopt), 1);
  EXPECT_EQ(retry_after_seconds(0), 1);
  EXPECT_EQ(retry_after_seconds(-5), 1);
  EXPECT_EQ(retry_after_seconds(2.01), 3);
  EXPECT_EQ(retry_after_seconds(60), 60);
  EXPECT_EQ(retry_after_seconds(1e300), 60);
  EXPECT_EQ(retry_after_seconds(std::numeric_limits<double>::infinity()), 60);
}

TEST(RetryAfter, WorksOffWhatWaits) {
  RunTimes times;
  EngineStats stats;
  stats.num_waiting = 30;
  EXPECT_FALSE(times.mean_seconds() || times.seconds_to_work_off(stats));
  times.add(2);
  EXPECT_EQ(times.seconds_to_work_off(stats), 60);  // nothing runs just now: one at a time
  stats.num_running = 10;
  EXPECT_EQ(times.seconds_to_work_off(stats), 6);
  for (int i = 0; i < 200; ++i) times.add(4);
  EXPECT_NEAR(*times.mean_seconds(), 4, 1e-3);
}

// "refuse" is refused by the engine, "stream" goes on for ever, all else ran for 4 of 9 seconds.
Script timed(const Request& request) {
  Script script = hello(request);
  const std::string& text = std::get<TextPrompt>(request.prompt).text;
  if (text == "refuse") script.refusal = Error{ErrorCode::kOverloaded, "full", ""};
  if (text == "stream") script.steps.pop_back();
  if (text != "refuse" && text != "stream")
    script.steps.back().event.finish->timings = {Seconds(5), Seconds(6), Seconds(9)};
  return script;
}

std::string completion_of(const std::string& prompt) {
  return post("/v1/completions", R"({"prompt":")" + prompt + R"(","stream":true})",
              "Authorization: Bearer first\r\n");
}

TEST_F(ServerTest, RetryAfterIsOfTheQueue) {
  start(timed);
  EngineStats stats;
  stats.num_waiting = 21;
  stats.num_running = 7;
  engine_->set_stats(stats);
  HttpReply reply = ask(completion_of("refuse"));
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.header("retry-after"), "1");  // nothing has run so far
  EXPECT_EQ(ask(completion_of("run")).status, 200);
  reply = ask(completion_of("refuse"));
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.header("retry-after"), "12");
}

TEST_F(ServerTest, RetryAfterIsOfTheKey) {
  ServerOptions options;
  options.api_keys = {*parse_api_key("first", "key-1")};
  options.max_requests_per_key = 2;
  start(timed, options);
  EXPECT_EQ(ask(completion_of("run")).status, 200);
  TestClient one(port()), two(port());
  one.send(completion_of("stream"));
  two.send(completion_of("stream"));
  ASSERT_TRUE(one.read_until("lo.") && two.read_until("lo."));
  const HttpReply reply = ask(completion_of("run"));
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.header("retry-after"), "2");
}

TEST_F(ServerTest, RetryAfterIsOfTheStart) {
  using std::chrono::milliseconds;
  listen(hello);
  server_->tell({"packing weights", 0, 1000});
  ask(get("/live"));  // the server's thread has read it by then
  std::this_thread::sleep_for(milliseconds(600));
  server_->tell({"packing weights", 0.1, 1000});  // after 0.6 s or more: so 5.4 s or more are left
  for (const char* path : {"/health", "/ready", "/v1/models"}) {
    const HttpReply reply = ask(get(path));
    EXPECT_EQ(reply.status, 503);
    EXPECT_GE(std::stoi(reply.header("retry-after")), 6) << path;
  }
}

}  // namespace
}  // namespace stoker
