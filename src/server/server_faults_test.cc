// The server among clients that vanish, stall, send junk or never end, and while it is told to
// stop.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include "server/server_fixture.h"

namespace stoker {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using ::testing::HasSubstr;

const char* const kCompletion = R"({"prompt":"x"})";
const char* const kStream = R"({"prompt":"x","stream":true})";

// Endless for the prompt "x", an answer for every other.
Script endless_or_hello(const Request& request) {
  const auto* text = std::get_if<TextPrompt>(&request.prompt);
  return text != nullptr && text->text == "x" ? endless(request) : hello(request);
}

// ---- Clients that go away

class Vanishing : public ServerTest, public ::testing::WithParamInterface<std::tuple<bool, int>> {};

// A request that runs ends when its client does: by FIN, by RST, streamed or not, also with another
// request sent ahead.
TEST_P(Vanishing, StopsItsWork) {
  const auto [is_stream, manner] = GetParam();
  start(endless_or_hello);
  TestClient client(port());
  client.send(post("/v1/completions", is_stream ? kStream : kCompletion));
  ASSERT_TRUE(engine_->wait_for_requests(1));
  if (is_stream) {
    ASSERT_TRUE(client.read_until("word"));
  }
  switch (manner) {
    case 0:
      client.close();
      break;
    case 1:
      client.reset();
      break;
    case 2:
      client.shutdown_send();
      break;
    case 3:
      client.send(get("/health"));
      client.reset();
      break;
  }
  EXPECT_TRUE(engine_->wait_until_idle(5s));
  EXPECT_EQ(engine_->num_cancelled(), 1);
  EXPECT_TRUE(still_answers());
  const auto lines = log_lines("request");
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.front(), HasSubstr("status=499 reason=abort"));
}

INSTANTIATE_TEST_SUITE_P(Manners, Vanishing,
                         testing::Combine(testing::Bool(), testing::Values(0, 1, 2, 3)));

TEST_F(ServerTest, ManyClientsThatVanishAtRandomMoments) {
  start([](const Request& request) {
    Script script = hello(request);
    script.repeat_last = false;
    for (ScriptStep& step : script.steps) step.delay = 3ms;
    return script;
  });
  constexpr int kThreads = 8, kClientsPerThread = 25;
  constexpr unsigned kSeed = 20261129;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937 random(kSeed + static_cast<unsigned>(t));
      for (int i = 0; i < kClientsPerThread; ++i) {
        TestClient client(port());
        const std::string request = post("/v1/completions", i % 2 == 0 ? kStream : kCompletion);
        const size_t sent = random() % 3 == 0 ? random() % request.size() : request.size();
        client.send(std::string_view(request).substr(0, sent));
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));
        if (random() % 2 == 0) client.reset();
      }
    });
  }
  threads.clear();
  EXPECT_TRUE(engine_->wait_until_idle());
  EXPECT_TRUE(still_answers());
}

// With FIN and with RST, behind each byte of a request and of its answer.
TEST_F(ServerTest, ClientsThatVanishAtEveryByte) {
  start(hello);
  for (const char* body : {kCompletion, kStream}) {
    const std::string request = post("/v1/completions", body, "Connection: close\r\n");
    for (size_t sent = 0; sent <= request.size(); ++sent) {
      for (const bool is_reset : {false, true}) {
        TestClient client(port());
        client.send(std::string_view(request).substr(0, sent));
        if (is_reset) client.reset();
      }
    }
    TestClient whole(port());
    whole.send(request);
    EXPECT_FALSE(whole.read_until("no such text"));  // up to the end of the connection
    const size_t num_bytes = whole.unread().size();
    ASSERT_GT(num_bytes, 200);
    for (size_t read = 1; read <= num_bytes; ++read) {
      TestClient client(port());
      client.send(request);
      // How events share chunks, and so the number of bytes, differs a little from run to run.
      if (!client.read_some(read)) {
        EXPECT_GT(client.unread().size(), 200);
      }
      client.reset();
    }
  }
  EXPECT_TRUE(engine_->wait_until_idle());
  EXPECT_TRUE(still_answers());
}

// ---- Bodies and heads that are wrong

TEST_F(ServerTest, BodyCutShort) {
  start(hello);
  TestClient client(port());
  const std::string request = post("/v1/completions", kCompletion);
  client.send(std::string_view(request).substr(0, request.size() - 3));
  client.shutdown_send();
  const auto reply = client.read_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 400);
  EXPECT_THAT(reply->body, HasSubstr("BadRequestError"));
  EXPECT_TRUE(client.is_closed_by_server());
  EXPECT_TRUE(still_answers());
}

TEST_F(ServerTest, JunkIsRefused) {
  start(hello);
  std::mt19937 random(1);
  std::string junk(10'000'000, '\0');
  std::generate(junk.begin(), junk.end(), [&] { return static_cast<char>(random()); });
  EXPECT_EQ(ask(post("/v1/completions", junk)).status, 400);
  EXPECT_EQ(ask(post("/v1/completions", std::string(10'000'000, '['))).status, 400);
  TestClient raw(port());
  raw.send(junk);
  const auto reply = raw.read_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 400);
  EXPECT_TRUE(raw.is_closed_by_server());
  EXPECT_FALSE(raw.was_reset());  // which could have taken the answer away
  EXPECT_TRUE(still_answers());
}

TEST_F(ServerTest, BrokenHttp) {
  start(hello);
  struct Row {
    std::string request;
    int status;
  };
  const std::string json = "Content-Type: application/json\r\n";
  const Row rows[] = {
      {"BLAH\r\n\r\n", 400},
      {"GET /health HTTP/2.0\r\n\r\n", 400},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\nno colon\r\n\r\n", 400},
      {"POST /v1/completions HTTP/1.1\r\n" + json + "Content-Length: x\r\n\r\n", 400},
      {"POST /v1/completions HTTP/1.1\r\n" + json + "Content-Length: -1\r\n\r\n", 400},
      {"POST /v1/completions HTTP/1.1\r\n" + json +
           "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
       400},
      {"POST /v1/completions HTTP/1.1\r\n" + json +
           "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST /v1/completions HTTP/1.1\r\n" + json + "Transfer-Encoding: gzip\r\n\r\n", 400},
      {"POST /v1/completions HTTP/1.1\r\n" + json + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
       400},
      {"POST /v1/completions HTTP/1.1\r\n" + json + "Transfer-Encoding: chunked\r\n\r\n1;" +
           std::string(100'000, 'x'),
       431},
      {"GET /health HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n", 431},
      {"GET /" + std::string(100'000, 'x'), 431},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.request.substr(0, 200));
    TestClient client(port());
    client.send(row.request);
    const auto reply = client.read_reply();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status, row.status);
    EXPECT_EQ(reply->header("connection"), "close");
    EXPECT_TRUE(client.is_closed_by_server());
    EXPECT_FALSE(client.was_reset());
  }
  EXPECT_TRUE(still_answers());
}

TEST_F(ServerTest, BodiesHaveALimit) {
  ServerOptions options;
  options.max_body_bytes = 1000;
  start(hello, options);
  const std::string big(1001, ' ');
  const HttpReply told = ask(post("/v1/completions", big));
  EXPECT_EQ(told.status, 413);
  EXPECT_THAT(told.body, HasSubstr("RequestTooLarge"));
  const HttpReply chunked =
      ask("POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
          "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" +
          big + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.status, 413);
  EXPECT_EQ(ask(post("/v1/completions", kCompletion + std::string(900, ' '))).status, 200);
}

TEST_F(ServerTest, BodiesTogetherHaveALimit) {
  ServerOptions options;
  options.max_buffered_bytes = 3000;
  start(hello, options);
  const std::string big = kCompletion + std::string(2000, ' ');
  const std::string request = post("/v1/completions", big);
  TestClient slow(port());
  slow.send(std::string_view(request).substr(0, request.size() - 1));
  // What the slow one has sent is counted some time soon.
  int status = 200;
  for (int i = 0; i < 100 && status == 200; ++i) status = ask(request).status;
  EXPECT_EQ(status, 503);
  slow.send(" ");
  const auto reply = slow.read_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(ask(request).status, 200);
}

// tests/e2e/abuse.py, which is for the real engine, finds nothing here either.
TEST_F(ServerTest, TheAbuseScript) {
  if (std::system("python3 --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no python3";
  start([](const Request& request) {
    const auto refuse = [](const char* field) {
      Script script;
      script.refusal = Error{ErrorCode::kInvalidArgument, "too long, or no such id", field};
      return script;
    };
    if (const auto* ids = std::get_if<TokenPrompt>(&request.prompt)) {
      const bool is_known =
          std::all_of(ids->ids.begin(), ids->ids.end(), [](int32_t id) { return id < 1000; });
      if (!is_known || ids->ids.size() > 4096) return refuse("prompt");
    } else if (const auto* text = std::get_if<TextPrompt>(&request.prompt)) {
      if (text->text.size() > 4096) return refuse("prompt");
    } else if (std::get<ChatPrompt>(request.prompt).messages[0].content[0].size() > 4096) {
      return refuse("messages");
    }
    Script script = hello(request);
    for (ScriptStep& step : script.steps) step.delay = 20ms;
    return script;
  });
  const std::string command = "python3 " STOKER_SOURCE_DIR "/tests/e2e/abuse.py http://127.0.0.1:" +
                              std::to_string(port()) + " --pid " + std::to_string(::getpid());
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(engine_->wait_until_idle());
}

// ---- Clients that take their time

TEST_F(ServerTest, SlowClientsAreSentAway) {
  ServerOptions options;
  options.header_timeout = options.body_idle_timeout = options.keep_alive_timeout = 200ms;
  start(hello, options);
  TestClient silent(port());
  EXPECT_TRUE(silent.is_closed_by_server(5s));

  TestClient slow_head(port());
  const auto started = std::chrono::steady_clock::now();
  bool is_open = true;  // a byte now and then does not keep it alive
  for (int i = 0; i < 40 && is_open; ++i) {
    is_open = slow_head.send(i == 0 ? "GET /health HTTP/1.1\r\nX: " : "x") &&
              !slow_head.read_until("408", 50ms);
  }
  EXPECT_FALSE(is_open);
  EXPECT_LT(std::chrono::steady_clock::now() - started, 1500ms);

  TestClient slow_body(port());
  slow_body.send(
      "POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: "
      "100\r\n\r\n{");
  const auto reply = slow_body.read_reply(5s);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 408);

  TestClient idle(port());
  idle.send(get("/health"));
  ASSERT_TRUE(idle.read_reply().has_value());
  EXPECT_TRUE(idle.is_closed_by_server(5s));
}

TEST_F(ServerTest, SilenceInAStreamIsPinged) {
  ServerOptions options;
  options.ping_interval = 50ms;
  start(endless, options);
  TestClient client(port());
  client.send(post("/v1/completions", kStream));
  EXPECT_TRUE(client.read_until(": ping\n\n", 5s));
  EXPECT_EQ(engine_->num_running(), 1);
}

// Its events stay with the engine, others get their answers, and after a while it is cut off.
TEST_F(ServerTest, AReaderThatStallsCostsOneBuffer) {
  ServerOptions options;
  options.write_stall_timeout = 1500ms;
  start(
      [](const Request& request) {
        if (std::get<TextPrompt>(request.prompt).text != "x") return hello(request);
        Script script;
        script.steps.push_back({text_event(std::string(50'000, 'w')), 1ms});
        script.repeat_last = true;
        return script;
      },
      options);
  TestClient stalled(port(), 4096);
  stalled.send(post("/v1/completions", kStream));
  ASSERT_TRUE(engine_->wait_for_requests(1));
  bool is_bounded = false;
  while (!is_bounded && engine_->num_live_streams() > 0) {
    const int64_t num_read = engine_->num_events_read();
    const int64_t num_made = engine_->num_events_made();
    std::this_thread::sleep_for(100ms);
    is_bounded =
        engine_->num_events_read() == num_read && engine_->num_events_made() > num_made + 2;
  }
  EXPECT_TRUE(is_bounded);
  EXPECT_EQ(ask(post("/v1/completions", R"({"prompt":"y"})")).status, 200);
  EXPECT_TRUE(engine_->wait_until_idle(20s));
  EXPECT_EQ(engine_->num_cancelled(), 1);
}

TEST_F(ServerTest, ALongAnswerReachesASlowReaderWhole) {
  const std::string piece(10'000, 'w');
  start([&piece](const Request&) { return script_of(std::vector<std::string>(300, piece)); });
  for (const bool is_stream : {true, false}) {
    TestClient slow(port(), 4096);
    slow.send(post("/v1/completions", is_stream ? kStream : kCompletion));
    std::this_thread::sleep_for(200ms);
    const auto reply = slow.read_reply();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(std::count(reply->body.begin(), reply->body.end(), 'w'), 3'000'000);
  }
}

TEST_F(ServerTest, QuietStreamsCostNoThread) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  setrlimit(RLIMIT_NOFILE, &limit);
  const size_t num_clients = std::min<size_t>(1000, (limit.rlim_cur - 100) / 2);
  start(endless_or_hello);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t i = 0; i < num_clients; ++i) {
    clients.push_back(std::make_unique<TestClient>(port()));
    clients.back()->send(post("/v1/completions", kStream));
  }
  for (auto& client : clients) ASSERT_TRUE(client->read_until("word"));
  EXPECT_EQ(engine_->num_running(), static_cast<int>(num_clients));
  EXPECT_EQ(ask(post("/v1/completions", R"({"prompt":"y"})")).status, 200);
  clients.clear();
  EXPECT_TRUE(engine_->wait_until_idle());
}

// ---- Limits of the machine

TEST_F(ServerTest, ConnectionsBeyondTheLimitWait) {
  ServerOptions options;
  options.max_connections = 2;
  start(hello, options);
  TestClient first(port());
  first.send(get("/health"));
  ASSERT_TRUE(first.read_reply().has_value());
  TestClient second(port());
  second.send(get("/health"));
  ASSERT_TRUE(second.read_reply().has_value());
  TestClient third(port());
  third.send(get("/health"));
  EXPECT_FALSE(third.read_reply(100ms).has_value());
  first.close();
  EXPECT_TRUE(third.read_reply(5s).has_value());
}

TEST_F(ServerTest, NoDescriptorsLeft) {
  start(hello);
  TestClient waiting(port());  // its socket is there before descriptors run out
  waiting.send(get("/health"));
  ASSERT_TRUE(waiting.read_reply().has_value());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  TestClient late(port());
  std::vector<int> hoard;
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) hoard.push_back(fd);
  waiting.send(get("/health"));
  EXPECT_TRUE(waiting.read_reply().has_value());
  ASSERT_FALSE(hoard.empty());
  ::close(hoard.back());  // for the test's own socket; its accept fails
  hoard.pop_back();
  TestClient refused(port());
  refused.send(get("/health"));
  EXPECT_FALSE(refused.read_reply(300ms).has_value());
  EXPECT_FALSE(log_lines("accept failed").empty());
  EXPECT_LT(log_lines("accept failed").size(), 10U);
  for (const int fd : hoard) ::close(fd);
  EXPECT_TRUE(refused.read_reply(5s).has_value());
}

// ---- Big prompts

TEST_F(ServerTest, HealthDoesNotWaitForABigPrompt) {
  std::atomic<bool> is_submitting = false;
  start([&](const Request& request) {
    is_submitting = true;
    std::this_thread::sleep_for(500ms);
    is_submitting = false;
    return hello(request);
  });
  TestClient client(port());
  client.send(post("/v1/completions", kCompletion));
  while (!is_submitting) std::this_thread::yield();
  TestClient other(port());
  other.send("HEAD /v1/models HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(other.read_reply(20s, false).has_value());
  EXPECT_TRUE(is_submitting);
  EXPECT_TRUE(client.read_reply().has_value());
}

// ---- Stopping

TEST_F(ServerTest, StopLetsWhatRunsFinish) {
  start([](const Request&) {
    Script script = script_of({"be", "fore"});
    for (ScriptStep& step : script.steps) step.delay = 200ms;
    return script;
  });
  TestClient running(port()), streaming(port()), idle(port());
  running.send(post("/v1/completions", kCompletion));
  streaming.send(post("/v1/completions", kStream));
  idle.send(get("/health"));
  ASSERT_TRUE(idle.read_reply().has_value());
  ASSERT_TRUE(engine_->wait_for_requests(2));
  std::jthread stopper([this] { server_->stop(10s); });
  std::this_thread::sleep_for(50ms);
  idle.send(get("/health"));
  const auto refused = idle.read_reply();
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->header("connection"), "close");
  EXPECT_EQ(refused->header("retry-after"), "10");
  EXPECT_THAT(refused->body, HasSubstr("ServiceUnavailable"));
  TestClient late(port());
  late.send(get("/health"));
  EXPECT_FALSE(late.read_reply(2s).has_value());
  const auto whole = running.read_reply();
  ASSERT_TRUE(whole.has_value());
  EXPECT_THAT(whole->body, HasSubstr(R"("text":"before")"));
  const auto stream = streaming.read_reply();
  ASSERT_TRUE(stream.has_value());
  EXPECT_EQ(stream->events().back(), "[DONE]");
  EXPECT_TRUE(running.is_closed_by_server());
  EXPECT_TRUE(streaming.is_closed_by_server());
  EXPECT_EQ(engine_->num_cancelled(), 0);
}

TEST_F(ServerTest, StopCancelsWhatDoesNotFinish) {
  start(endless);
  TestClient running(port()), streaming(port());
  running.send(post("/v1/completions", kCompletion));
  streaming.send(post("/v1/completions", kStream));
  ASSERT_TRUE(engine_->wait_for_requests(2));
  ASSERT_TRUE(streaming.read_until("word"));
  std::jthread stopper([this] { server_->stop(100ms); });
  const auto refused = running.read_reply();
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 503);
  const auto stream = streaming.read_reply();
  ASSERT_TRUE(stream.has_value());
  const auto events = stream->events();
  ASSERT_GE(events.size(), 2U);
  EXPECT_THAT(events[events.size() - 2], HasSubstr("ServiceUnavailable"));
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST_F(ServerTest, StopDoesNotWaitForClientsThatStall) {
  ServerOptions options;
  options.close_timeout = 50ms;
  const auto started = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {  // the clients are met before, at and after their acceptance
    start(endless_or_hello, options);
    TestClient half_sent(port()), silent(port());
    half_sent.send("POST /v1/comp");
    std::this_thread::sleep_for(std::chrono::microseconds(i * 50));
    server_->stop(0ms);
    EXPECT_TRUE(half_sent.is_closed_by_server());
    EXPECT_TRUE(silent.is_closed_by_server());
    server_.reset();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, 8s);
}

}  // namespace
}  // namespace stoker
