// The server over real sockets: the exact shapes of every route, errors, and HTTP itself.
#include "server/server.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <iterator>
#include <regex>
#include <thread>

#include "base/json.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kId = "X-Request-Id: r1\r\n";

// Without what differs from run to run.
std::string masked(const std::string& text) {
  return std::regex_replace(text, std::regex(R"("created":\d+)"), R"("created":0)");
}

std::vector<std::string> masked_events(const HttpReply& reply) {
  std::vector<std::string> events = reply.events();
  for (std::string& event : events) event = masked(event);
  return events;
}

std::string error_member(const HttpReply& reply, const char* name) {
  const auto body = Json::parse(reply.body);
  if (!body || body->find("error") == nullptr) return "no error body: " + reply.body;
  const Json* member = body->find("error")->find(name);
  return member == nullptr     ? "no such member"
         : member->is_string() ? member->as_string()
                               : member->dump();
}

Script reasoning_script(const Request& /*request*/) {
  Script script;
  script.steps = {{reasoning_event("let me ")}, {reasoning_event("think")}, {text_event("Paris")}};
  Event end = finish_event(FinishReason::kStop, 5, "\n");
  end.text = ".";
  end.finish->usage.reasoning_tokens = 2;
  script.steps.push_back({end});
  return script;
}

const char* const kUsage =
    R"({"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,)"
    R"("prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":2},)"
    R"("prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":3})";

const char* const kChatBody = R"({"messages":[{"role":"user","content":"q"}]})";

std::string chat_body(const std::string& members) {
  return R"({"messages":[{"role":"user","content":"q"}],)" + members + "}";
}

// ---- Shapes

TEST_F(ServerTest, ChatAnswer) {
  start(reasoning_script);
  const HttpReply reply = ask(post("/v1/chat/completions", kChatBody, kId));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "application/json");
  EXPECT_EQ(reply.header("x-request-id"), "r1");
  EXPECT_EQ(
      masked(reply.body),
      std::string(
          R"({"id":"chatcmpl-r1","object":"chat.completion","created":0,"model":"scripted",)"
          R"("system_fingerprint":"stoker-test","choices":[{"index":0,"message":{"role":"assistant",)"
          R"("content":"Paris.","reasoning_content":"let me think","reasoning":"let me think",)"
          R"("refusal":null},"logprobs":null,"finish_reason":"stop","stop_reason":"\n"}],"usage":)") +
          kUsage + R"(,"seed":7})");
}

TEST_F(ServerTest, ChatStream) {
  start(reasoning_script);
  const HttpReply reply = ask(post("/v1/chat/completions", chat_body(R"("stream":true)"), kId));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(reply.header("cache-control"), "no-cache");
  EXPECT_EQ(reply.header("x-accel-buffering"), "no");
  EXPECT_EQ(reply.header("transfer-encoding"), "chunked");
  const std::string head =
      R"({"id":"chatcmpl-r1","object":"chat.completion.chunk","created":0,"model":"scripted",)"
      R"("system_fingerprint":"stoker-test","choices":[{"index":0,)";
  const std::string middle = R"(,"logprobs":null,"finish_reason":null}]})";
  EXPECT_THAT(
      masked_events(reply),
      ElementsAre(
          head + R"("delta":{"role":"assistant","content":""})" + middle,
          head + R"("delta":{"reasoning":"let me ","reasoning_content":"let me "})" + middle,
          head + R"("delta":{"reasoning":"think","reasoning_content":"think"})" + middle,
          head + R"("delta":{"content":"Paris"})" + middle,
          head + R"("delta":{"content":"."})" + middle,
          head +
              R"("delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":"\n"}],"seed":7})",
          "[DONE]"));
}

TEST_F(ServerTest, ChatStreamWithUsage) {
  start(reasoning_script);
  const HttpReply reply =
      ask(post("/v1/chat/completions",
               chat_body(R"("stream":true,"stream_options":{"include_usage":true})")));
  const auto events = masked_events(reply);
  ASSERT_EQ(events.size(), 8U);
  for (size_t i = 0; i < 6; ++i) EXPECT_THAT(events[i], HasSubstr(R"("usage":null})"));
  EXPECT_THAT(events[6], HasSubstr(R"("choices":[],"usage":)" + std::string(kUsage) + "}"));
  EXPECT_EQ(events[7], "[DONE]");
}

TEST_F(ServerTest, StreamWithContinuousUsage) {
  start(reasoning_script);
  const HttpReply reply =
      ask(post("/v1/chat/completions",
               chat_body(R"("stream":true,"stream_options":{"continuous_usage_stats":true})")));
  const auto events = reply.events();
  ASSERT_EQ(events.size(), 7U);
  EXPECT_THAT(events[0], HasSubstr(R"("usage":{"prompt_tokens":3,"completion_tokens":0,)"));
  EXPECT_THAT(events[2], HasSubstr(R"("usage":{"prompt_tokens":3,"completion_tokens":2,)"));
  EXPECT_THAT(events[5], HasSubstr(std::string(R"("usage":)") + kUsage));
}

TEST_F(ServerTest, CompletionAnswer) {
  start(hello);
  const HttpReply reply = ask(post("/v1/completions", R"({"prompt":"x"})", kId));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(masked(reply.body),
            R"({"id":"cmpl-r1","object":"text_completion","created":0,"model":"scripted",)"
            R"("system_fingerprint":"stoker-test","choices":[{"index":0,"text":"Hello.",)"
            R"("logprobs":null,"finish_reason":"stop","stop_reason":null}],)"
            R"("usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6,)"
            R"("prompt_tokens_details":{"cached_tokens":0},)"
            R"("completion_tokens_details":{"reasoning_tokens":0},)"
            R"("prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":3},"seed":7})");
}

TEST_F(ServerTest, CompletionStream) {
  start(hello);
  const HttpReply reply = ask(post("/v1/completions", R"({"prompt":"x","stream":true})", kId));
  const std::string head =
      R"({"id":"cmpl-r1","object":"text_completion","created":0,"model":"scripted",)"
      R"("system_fingerprint":"stoker-test","choices":[{"index":0,)";
  const std::string middle = R"(,"logprobs":null,"finish_reason":null}]})";
  EXPECT_THAT(
      masked_events(reply),
      ElementsAre(
          head + R"("text":"Hel")" + middle, head + R"("text":"lo.")" + middle,
          head +
              R"("text":"","logprobs":null,"finish_reason":"stop","stop_reason":null}],"seed":7})",
          "[DONE]"));
}

TEST_F(ServerTest, SeveralPromptsAreSeveralChoicesInOrder) {
  start([](const Request& request) {
    Script script = script_of({std::get<TextPrompt>(request.prompt).text});
    if (std::get<TextPrompt>(request.prompt).text == "a")
      script.steps[0].delay = std::chrono::milliseconds(50);
    return script;
  });
  const auto body = Json::parse(ask(post("/v1/completions", R"({"prompt":["a","b","c"]})")).body);
  ASSERT_TRUE(body.has_value());
  const auto& choices = body->find("choices")->items();
  ASSERT_EQ(choices.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(choices[i].find("index")->as_int(), static_cast<int64_t>(i));
    EXPECT_EQ(choices[i].find("text")->as_string(), std::string(1, static_cast<char>('a' + i)));
  }
  EXPECT_EQ(body->find("usage")->find("completion_tokens")->as_int(), 6);

  const HttpReply stream = ask(post("/v1/completions", R"({"prompt":["a","b"],"stream":true})"));
  const auto events = stream.events();
  ASSERT_EQ(events.size(), 5U);
  EXPECT_THAT(events[0], HasSubstr(R"("index":1,"text":"b")"));
  EXPECT_THAT(events[3],
              HasSubstr(R"("index":0,"text":"","logprobs":null,"finish_reason":"stop")"));
}

// The seed that is told gives the same answer when it is sent back, negative ones too.
TEST_F(ServerTest, SeedIsToldAsItIsAccepted) {
  start([](const Request& request) {
    Script script = script_of({"x"});
    script.seed = request.sampling.seed.value_or(1);
    return script;
  });
  EXPECT_THAT(ask(post("/v1/completions", R"({"prompt":"x","seed":-5})")).body,
              HasSubstr(R"("seed":-5})"));
  EXPECT_THAT(ask(post("/v1/completions", R"({"prompt":"x","seed":9223372036854775807})")).body,
              HasSubstr(R"("seed":9223372036854775807})"));
}

TEST_F(ServerTest, TextOfAnAnswerIsJsonOnOneLine) {
  start([](const Request&) { return script_of({"a\n\"\\\x01\xe2\x82\xac\xf0\x9f\x98\x80"}); });
  const HttpReply reply = ask(post("/v1/completions", R"({"prompt":"x","stream":true})"));
  const auto event = Json::parse(reply.events().front());
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->find("choices")->items()[0].find("text")->as_string(),
            "a\n\"\\\x01\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST_F(ServerTest, Models) {
  ServerOptions options;
  options.served_model_names = {"first", "org/second"};
  start(hello, options);
  const HttpReply list = ask(get("/v1/models"));
  EXPECT_EQ(list.status, 200);
  const std::string card =
      R"(,"object":"model","created":0,"owned_by":"stoker","root":"/models/scripted","parent":null,)"
      R"("max_model_len":4096,"permission":[],)"
      R"("capabilities":{"text":true,"image":false,"tools":true,"reasoning":true}})";
  EXPECT_EQ(masked(list.body), R"({"object":"list","data":[{"id":"first")" + card +
                                   R"(,{"id":"org/second")" + card + "]}");
  EXPECT_EQ(masked(ask(get("/v1/models/org/second")).body), R"({"id":"org/second")" + card);
  EXPECT_EQ(masked(ask(get("/v1/models/org%2Fsecond?x=1")).body), R"({"id":"org/second")" + card);
  const HttpReply missing = ask(get("/v1/models/third"));
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(error_member(missing, "type"), "NotFoundError");
  EXPECT_EQ(error_member(missing, "param"), "model");
  const HttpReply answer = ask(post("/v1/completions", R"({"prompt":"x","model":"org/second"})"));
  EXPECT_THAT(answer.body, HasSubstr(R"("model":"org/second")"));
}

TEST_F(ServerTest, Health) {
  start(hello);
  const HttpReply reply = ask(get("/health"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "");
  engine_->set_healthy(false);
  EXPECT_EQ(ask(get("/health")).status, 503);
  const HttpReply refused = ask(post("/v1/completions", R"({"prompt":"x"})"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error_member(refused, "type"), "EngineDeadError");
}

// ---- Errors

TEST_F(ServerTest, ErrorsOfTheRequest) {
  start(hello);
  struct Row {
    std::string request;
    int status;
    const char* type;
    const char* param;
  };
  const std::string body = R"({"prompt":"x"})";
  const std::string plain = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n";
  const Row rows[] = {
      {post("/v1/completions", "{"), 400, "BadRequestError", "null"},
      {post("/v1/completions", "\xff"), 400, "BadRequestError", "null"},
      {post("/v1/completions", R"({"prompt":"x","n":0})"), 400, "BadRequestError", "n"},
      {post("/v1/chat/completions", R"({"messages":[{"role":"user","content":[5]}]})"), 400,
       "BadRequestError", "messages[0].content[0]"},
      {post("/v1/completions", R"({"prompt":"x","model":"y"})"), 404, "NotFoundError", "model"},
      {post("/v1/embeddings", body), 404, "NotFoundError", "null"},
      {get("/nowhere"), 404, "NotFoundError", "null"},
      {get("/v1/completions"), 405, "MethodNotAllowed", "null"},
      {post("/health", ""), 405, "MethodNotAllowed", "null"},
      {"DELETE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 405, "MethodNotAllowed", "null"},
      {plain + "\r\n" + body, 415, "UnsupportedMediaType", "null"},
      {plain + "Content-Type: text/plain\r\n\r\n" + body, 415, "UnsupportedMediaType", "null"},
      {plain + "Content-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n" + body, 415,
       "UnsupportedMediaType", "null"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.request);
    const HttpReply reply = ask(row.request);
    EXPECT_EQ(reply.status, row.status);
    EXPECT_EQ(reply.header("content-type"), "application/json");
    EXPECT_NE(reply.header("x-request-id"), "");
    EXPECT_EQ(error_member(reply, "type"), row.type);
    EXPECT_EQ(error_member(reply, "param"), row.param);
    EXPECT_EQ(error_member(reply, "code"), std::to_string(row.status));
    EXPECT_NE(error_member(reply, "message"), "");
  }
  EXPECT_EQ(ask(get("/v1/completions")).header("allow"), "POST, OPTIONS");
  EXPECT_EQ(ask(post("/health", "")).header("allow"), "GET, HEAD, OPTIONS");
  EXPECT_TRUE(engine_->requests().empty());
}

TEST_F(ServerTest, AnswersMayTellTheirTimes) {
  ServerOptions options;
  options.per_request_metrics = options.force_include_usage = true;
  start(
      [](const Request& request) {
        Script script = hello(request);
        script.steps.back().event.finish->timings = {Seconds(0.25), Seconds(0.5), Seconds(1.5)};
        return script;
      },
      options);
  const std::string told = R"("metrics":{"time_to_first_token_ms":500,"generation_time_ms":1000,)"
                           R"("queue_time_ms":250,"mean_itl_ms":500,"tokens_per_second":2})";
  EXPECT_THAT(ask(post("/v1/completions", R"({"prompt":"x"})")).body, HasSubstr(told));
  const auto events = ask(post("/v1/completions", R"({"prompt":"x","stream":true})")).events();
  ASSERT_GE(events.size(), 2);
  EXPECT_THAT(events[events.size() - 2], HasSubstr("\"choices\":[],\"usage\":{"));
  EXPECT_THAT(events[events.size() - 2], HasSubstr(told));
  EXPECT_THAT(ask(post("/v1/completions", R"({"prompt":["x","y"]})")).body,
              HasSubstr(R"("metrics":null)"));
}

TEST_F(ServerTest, UnknownFieldsMayBeErrors) {
  ServerOptions options;
  options.strict_requests = true;
  start(hello, options);
  const HttpReply reply = ask(post("/v1/completions", R"({"prompt":"x","tempreature":1})"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr(R"("param":"tempreature")"));
  EXPECT_TRUE(still_answers());
}

TEST_F(ServerTest, ErrorsOfTheEngine) {
  struct Row {
    ErrorCode code;
    int status;
    const char* type;
    bool has_retry_after;
  };
  const Row rows[] = {
      {ErrorCode::kInvalidArgument, 400, "BadRequestError", false},
      {ErrorCode::kUnsupported, 400, "BadRequestError", false},
      {ErrorCode::kOverloaded, 429, "RateLimitError", true},
      {ErrorCode::kCancelled, 503, "ServiceUnavailable", true},
      {ErrorCode::kResourceExhausted, 503, "ServiceUnavailable", true},
      {ErrorCode::kInternal, 500, "InternalServerError", false},
  };
  const Row* row = nullptr;
  start([&row](const Request& request) {
    const Error error{row->code, "told by the engine", "max_tokens"};
    if (std::get<TextPrompt>(request.prompt).text == "submit") {
      Script script;
      script.refusal = error;
      return script;
    }
    Script script = script_of({"x"});
    script.steps.back().event.finish->reason = FinishReason::kError;
    script.steps.back().event.finish->error = error;
    return script;
  });
  for (const Row& each : rows) {
    row = &each;
    for (const char* prompt : {"submit", "run"}) {
      const HttpReply reply =
          ask(post("/v1/completions", R"({"prompt":")" + std::string(prompt) + "\"}"));
      EXPECT_EQ(reply.status, row->status);
      EXPECT_EQ(error_member(reply, "type"), row->type);
      EXPECT_EQ(error_member(reply, "message"), "told by the engine");
      EXPECT_EQ(error_member(reply, "param"), "max_tokens");
      EXPECT_EQ(!reply.header("retry-after").empty(), row->has_retry_after);
    }
  }
}

TEST_F(ServerTest, ErrorInAStreamIsItsLastEventAndClosesTheConnection) {
  start([](const Request&) {
    Script script = script_of({"part"});
    script.steps.back().event.finish->reason = FinishReason::kError;
    script.steps.back().event.finish->error = Error{ErrorCode::kInternal, "logits are NaN", ""};
    return script;
  });
  TestClient client(port());
  client.send(post("/v1/completions", R"({"prompt":"x","stream":true})"));
  const auto reply = client.read_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 200);
  const auto events = reply->events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(
      events[1],
      R"({"error":{"message":"logits are NaN","type":"InternalServerError","param":null,"code":500}})");
  EXPECT_EQ(events[2], "[DONE]");
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST_F(ServerTest, ARefusedPromptTakesTheOthersBack) {
  start([](const Request& request) {
    Script script;
    if (std::get<TextPrompt>(request.prompt).text == "bad") {
      script.refusal = Error{ErrorCode::kInvalidArgument, "too long", "prompt"};
    }
    return script;
  });
  EXPECT_EQ(ask(post("/v1/completions", R"({"prompt":["good","bad"]})")).status, 400);
  EXPECT_TRUE(engine_->wait_until_idle());
  EXPECT_EQ(engine_->num_cancelled(), 1);
}

// ---- HTTP

TEST_F(ServerTest, KeepAliveAndPipelining) {
  start([](const Request& request) {
    Script script = script_of({std::get<TextPrompt>(request.prompt).text});
    script.steps.front().delay = std::chrono::milliseconds(20);
    return script;
  });
  TestClient client(port());
  std::string requests;
  for (int i = 0; i < 5; ++i) {
    requests += post("/v1/completions", "{\"prompt\":\"p" + std::to_string(i) + "\",\"stream\":" +
                                            (i % 2 == 0 ? "true" : "false") + "}");
    requests += get("/health");
  }
  client.send(requests);
  for (int i = 0; i < 5; ++i) {
    const auto reply = client.read_reply();
    ASSERT_TRUE(reply.has_value());
    EXPECT_THAT(reply->body, HasSubstr("\"text\":\"p" + std::to_string(i) + "\""));
    const auto health = client.read_reply();
    ASSERT_TRUE(health.has_value());
    EXPECT_EQ(health->status, 200);
  }
  client.send(get("/health", "Connection: close\r\n"));
  const auto last = client.read_reply();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->header("connection"), "close");
  EXPECT_TRUE(client.is_closed_by_server());
}

// What comes while an answer is made is neither lost nor taken for the end of the connection.
TEST_F(ServerTest, ARequestSentWhileAnotherIsAnswered) {
  start([](const Request&) {
    Script script = script_of({"first", "last"});
    script.steps[1].delay = std::chrono::milliseconds(100);
    return script;
  });
  for (const char* body : {R"({"prompt":"x"})", R"({"prompt":"x","stream":true})"}) {
    TestClient client(port());
    client.send(post("/v1/completions", body));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    client.send("GET /v1/mod");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    client.send("els HTTP/1.1\r\n\r\n");
    const auto answer = client.read_reply();
    ASSERT_TRUE(answer.has_value());
    EXPECT_THAT(answer->body, HasSubstr("last"));
    const auto models = client.read_reply();
    ASSERT_TRUE(models.has_value());
    EXPECT_THAT(models->body, HasSubstr(R"("object":"list")"));
  }
  EXPECT_EQ(engine_->num_cancelled(), 0);
}

TEST_F(ServerTest, ThousandsOfPipelinedRequests) {
  start(hello);
  TestClient client(port());
  constexpr int kRequests = 3000;
  std::thread sender([&client] {
    for (int i = 0; i < kRequests; ++i) client.send(get("/v1/models"));
  });
  int num_replies = 0;
  while (num_replies < kRequests && client.read_reply()) ++num_replies;
  EXPECT_EQ(num_replies, kRequests);
  client.shutdown_send();
  sender.join();
}

TEST_F(ServerTest, BytesOneByOne) {
  start(hello);
  TestClient client(port());
  for (const char byte : post("/v1/completions", R"({"prompt":"x"})")) {
    client.send(std::string_view(&byte, 1));
  }
  const auto reply = client.read_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 200);
}

TEST_F(ServerTest, ChunkedBody) {
  start(hello);
  const HttpReply reply =
      ask("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: Application/JSON; "
          "charset=utf-8\r\n"
          "Transfer-Encoding: chunked\r\n\r\n7\r\n{\"promp\r\n7;x=y\r\nt\":\"x\"}\r\n0\r\n\r\n");
  EXPECT_EQ(reply.status, 200);
}

TEST_F(ServerTest, ExpectContinue) {
  start(hello);
  TestClient client(port());
  const std::string body = R"({"prompt":"x"})";
  const std::string request = post("/v1/completions", body, "Expect: 100-continue\r\n");
  client.send(std::string_view(request).substr(0, request.size() - body.size()));
  const auto interim = client.read_reply();
  ASSERT_TRUE(interim.has_value());
  EXPECT_EQ(interim->status, 100);
  client.send(body);
  const auto reply = client.read_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 200);
  // A request that its head refuses is not asked for its body.
  const std::string refused =
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
      "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n";
  client.send(refused);
  const auto refusal = client.read_reply();
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->status, 415);
  EXPECT_EQ(refusal->header("connection"), "close");
}

TEST_F(ServerTest, Http10) {
  start(hello);
  TestClient client(port());
  const std::string body = R"({"prompt":"x","stream":true})";
  client.send(
      "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  const auto reply = client.read_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->header("transfer-encoding"), "");
  EXPECT_EQ(reply->header("connection"), "close");
  EXPECT_THAT(reply->body, HasSubstr("data: [DONE]\n\n"));
  EXPECT_TRUE(client.is_closed_by_server());

  TestClient kept(port());
  kept.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto health = kept.read_reply();
  ASSERT_TRUE(health.has_value());
  EXPECT_EQ(health->header("connection"), "keep-alive");
  kept.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(kept.read_reply().has_value());
  EXPECT_TRUE(kept.is_closed_by_server());
}

TEST_F(ServerTest, HeadAndOptions) {
  start(hello);
  TestClient client(port());
  client.send("HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto head = client.read_reply(std::chrono::seconds(20), false);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->status, 200);
  EXPECT_NE(head->header("content-length"), "0");
  client.send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://a\r\n\r\n");
  const auto options = client.read_reply();
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->status, 204);
  EXPECT_EQ(options->header("access-control-allow-origin"), "*");
  EXPECT_EQ(options->header("access-control-allow-methods"), "POST, OPTIONS");
  EXPECT_EQ(options->header("access-control-allow-headers"), "Authorization, *");
}

TEST_F(ServerTest, RequestIds) {
  start(hello);
  EXPECT_THAT(ask(post("/v1/completions", R"({"prompt":"x","request_id":"b2"})")).body,
              HasSubstr(R"("id":"cmpl-b2")"));
  EXPECT_THAT(ask(post("/v1/completions", R"({"prompt":"x","request_id":"b2"})", kId)).body,
              HasSubstr(R"("id":"cmpl-r1")"));
  const std::string first = ask(get("/health")).header("x-request-id");
  EXPECT_EQ(first.size(), 32U);
  EXPECT_NE(first, ask(get("/health")).header("x-request-id"));
  const std::string too_long = "X-Request-Id: " + std::string(129, 'a') + "\r\n";
  EXPECT_EQ(ask(get("/health", too_long)).header("x-request-id").size(), 32U);
  EXPECT_EQ(ask(get("/health", "X-Request-Id: a\xe9 b\r\n")).header("x-request-id").size(), 32U);
}

// ---- Log

TEST_F(ServerTest, OneLinePerRequestWithoutText) {
  start(hello);
  ask(post("/v1/completions", R"({"prompt":"secret question"})", kId));
  ask(post("/v1/completions", R"({"prompt":"x","mystery":1,"\nevil id=1":2})"));
  ask(post("/v1/completions", R"({"prompt":"x","mystery":2})"));
  EXPECT_THAT(log_lines("request id=r1"),
              ElementsAre("request id=r1 route=/v1/completions status=200 reason=stop "
                          "prompt_tokens=3 completion_tokens=3 queued_s=0.000 first_token_s=0.000 "
                          "total_s=0.000"));
  EXPECT_THAT(log_lines("request field"),
              ElementsAre(R"(request field ignored name="mystery")",
                          R"(request field ignored name="\nevil id=1")"));
  for (const std::string& line : log_lines("")) {
    EXPECT_THAT(line, Not(HasSubstr("secret")));
    EXPECT_THAT(line, Not(HasSubstr("Hel")));
    EXPECT_THAT(line, Not(HasSubstr("\n")));
  }
}

// ---- Starting

TEST_F(ServerTest, StartFailsClearly) {
  start(hello);
  ServerOptions taken;
  taken.port = port();
  const auto second = Server::start(taken);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_THAT(second.error().message, HasSubstr("127.0.0.1:" + std::to_string(port())));
  for (const char* host : {"192.0.2.1", "no such host", ""}) {
    ServerOptions elsewhere;
    elsewhere.host = host;
    const auto server = Server::start(elsewhere);
    ASSERT_FALSE(server.has_value()) << host;
    EXPECT_EQ(server.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(server.error().field, "host");
  }
}

TEST_F(ServerTest, StoppedItLeavesNothingOpen) {
  const auto num_open = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = num_open();
  start(reasoning_script);
  EXPECT_TRUE(still_answers());
  const uint16_t old_port = port();
  server_->stop(std::chrono::milliseconds(0));
  server_.reset();
  EXPECT_EQ(num_open(), before);
  ServerOptions options;
  options.port = old_port;
  const auto again = Server::start(options);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ((*again)->port(), old_port);
}

}  // namespace
}  // namespace stoker
