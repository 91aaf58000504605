// A server over a scripted engine, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/scripted_engine.h"
#include "server/server.h"
#include "server/test_client.h"

namespace stoker {

/// Starts with start(); stops and checks that nothing lives on at the end of the test.
class ServerTest : public ::testing::Test {
 protected:
  void start(ScriptedEngine::Writer writer, ServerOptions options = {}) {
    listen(std::move(writer), std::move(options));
    if (server_) server_->attach(*engine_);
  }

  /// Without attaching the engine.
  void listen(ScriptedEngine::Writer writer, ServerOptions options = {}) {
    engine_ = std::make_unique<ScriptedEngine>(std::move(writer));
    options.port = 0;
    if (options.close_timeout == ServerOptions().close_timeout) {
      options.close_timeout = std::chrono::milliseconds(500);
    }
    options.log = [this](LogLevel, std::string_view line) {
      const std::scoped_lock lock(log_mutex_);
      log_.emplace_back(line);
    };
    auto server = Server::start(std::move(options));
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = *std::move(server);
  }

  void TearDown() override {
    if (!server_) return;
    server_->stop(std::chrono::milliseconds(0));
    EXPECT_EQ(engine_->num_live_streams(), 0);
  }

  uint16_t port() const { return server_->port(); }

  /// The reply to one request on a connection of its own.
  HttpReply ask(const std::string& request) {
    TestClient client(port());
    client.send(request);
    auto reply = client.read_reply();
    EXPECT_TRUE(reply.has_value()) << request.substr(0, 200);
    return reply ? *std::move(reply) : HttpReply{};
  }

  /// Whether a normal request still gets its answer.
  bool still_answers() {
    const HttpReply reply = ask(post("/v1/completions", R"({"prompt":"hi"})"));
    return reply.status == 200 && reply.body.find("text_completion") != std::string::npos;
  }

  /// The lines that begin so.
  std::vector<std::string> log_lines(const std::string& start) {
    const std::scoped_lock lock(log_mutex_);
    std::vector<std::string> lines;
    for (const std::string& line : log_) {
      if (line.rfind(start, 0) == 0) lines.push_back(line);
    }
    return lines;
  }

  std::unique_ptr<ScriptedEngine> engine_;
  std::unique_ptr<Server> server_;

 private:
  std::mutex log_mutex_;  // guards log_
  std::vector<std::string> log_;
};

/// Says one word and then nothing for ever.
inline Script endless(const Request& /*request*/) {
  Script script;
  script.steps.push_back({text_event("word")});
  return script;
}

/// Ends at once, without text.
inline Script silent(const Request& /*request*/) {
  Script script;
  script.steps.push_back({finish_event(FinishReason::kStop, 1)});
  return script;
}

/// Says "a" and breaks.
inline Script broken(const Request& /*request*/) {
  Script script;
  Event end = finish_event(FinishReason::kError, 1);
  end.finish->error = Error{ErrorCode::kInternal, "broke", ""};
  script.steps = {{text_event("a")}, {end}};
  return script;
}

}  // namespace stoker
