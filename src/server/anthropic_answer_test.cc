// Answers, streams and failures in the shapes that Anthropic's clients read.
#include <gmock/gmock.h>

#include <regex>

#include "base/json.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const char* const kAsked = R"({"max_tokens":9,"messages":[{"role":"user","content":"q"}])";

// Ids of calls are random.
std::string without_call_ids(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(toolu_[0-9a-f]{24})"), "ID");
}

Event calling(std::vector<CallPiece> calls, std::string text = "") {
  Event event = text_event(std::move(text));
  event.calls = std::move(calls);
  return event;
}

// Thinks, speaks and makes two calls; 1 of its 3 prompt tokens was in the cache.
Script everything(const Request& /*request*/) {
  Event end = finish_event(FinishReason::kCalls, 9);
  end.finish->usage.cached_tokens = 1;
  end.finish->usage.reasoning_tokens = 2;
  Script script;
  script.steps = {{reasoning_event("let me ")},
                  {reasoning_event("think")},
                  {text_event("Well,\n")},
                  {calling({{0, "tide", R"({"at": "H)"}}, "then")},
                  {calling({{0, std::nullopt, R"(ull"})", true}, {1, "now", "{}", true}})},
                  {end}};
  return script;
}

Script ending(FinishReason reason, std::optional<std::string> stop = std::nullopt) {
  Script script;
  script.steps = {{text_event("Paris")}, {finish_event(reason, 2, std::move(stop))}};
  return script;
}

class AnthropicTest : public ServerTest {
 protected:
  HttpReply ask_for(const std::string& members = "") {
    return ask(post("/v1/messages", kAsked + members + "}",
                    "X-Request-Id: r1\r\nanthropic-version: 2023-06-01\r\n"
                    "anthropic-beta: output-128k-2025-02-19\r\n"));
  }
};

TEST_F(AnthropicTest, AWholeAnswer) {
  start(everything);
  const HttpReply reply = ask_for();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "application/json");
  EXPECT_EQ(reply.header("x-request-id"), "r1");
  EXPECT_EQ(without_call_ids(reply.body),
            R"({"id":"msg_r1","type":"message","role":"assistant","model":"scripted","content":[)"
            R"({"type":"thinking","thinking":"let me think","signature":"c3Rva2Vy"},)"
            R"({"type":"text","text":"Well,\nthen"},)"
            R"({"type":"tool_use","id":"ID","name":"tide","input":{"at": "Hull"}},)"
            R"({"type":"tool_use","id":"ID","name":"now","input":{}}],)"
            R"("stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":2,)"
            R"("cache_creation_input_tokens":0,"cache_read_input_tokens":1,"output_tokens":9,)"
            R"("output_tokens_details":{"thinking_tokens":2}}})");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(reply.body, match,
                                std::regex(R"((toolu_[0-9a-f]{24}).*(toolu_[0-9a-f]{24}))")));
  EXPECT_NE(match[1], match[2]);
}

TEST_F(AnthropicTest, AStream) {
  start(everything);
  const HttpReply reply = ask_for(R"(,"stream":true)");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "text/event-stream; charset=utf-8");
  const std::pair<const char*, const char*> expected[] = {
      {"message_start",
       R"("message":{"id":"msg_r1","type":"message","role":"assistant","model":"scripted","content":[],)"
       R"("stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,)"
       R"("cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,)"
       R"("output_tokens_details":{"thinking_tokens":0}}})"},
      {"content_block_start",
       R"("index":0,"content_block":{"type":"thinking","thinking":"","signature":""})"},
      {"content_block_delta",
       R"("index":0,"delta":{"type":"thinking_delta","thinking":"let me "})"},
      {"content_block_delta", R"("index":0,"delta":{"type":"thinking_delta","thinking":"think"})"},
      {"content_block_delta",
       R"("index":0,"delta":{"type":"signature_delta","signature":"c3Rva2Vy"})"},
      {"content_block_stop", R"("index":0)"},
      {"content_block_start", R"("index":1,"content_block":{"type":"text","text":""})"},
      {"content_block_delta", R"("index":1,"delta":{"type":"text_delta","text":"Well,\n"})"},
      {"content_block_delta", R"("index":1,"delta":{"type":"text_delta","text":"then"})"},
      {"content_block_stop", R"("index":1)"},
      {"content_block_start",
       R"("index":2,"content_block":{"type":"tool_use","id":"ID","name":"tide","input":{}})"},
      {"content_block_delta",
       R"("index":2,"delta":{"type":"input_json_delta","partial_json":"{\"at\": \"H"})"},
      {"content_block_delta",
       R"("index":2,"delta":{"type":"input_json_delta","partial_json":"ull\"}"})"},
      {"content_block_stop", R"("index":2)"},
      {"content_block_start",
       R"("index":3,"content_block":{"type":"tool_use","id":"ID","name":"now","input":{}})"},
      {"content_block_delta",
       R"("index":3,"delta":{"type":"input_json_delta","partial_json":"{}"})"},
      {"content_block_stop", R"("index":3)"},
      {"message_delta",
       R"("delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":2,)"
       R"("cache_creation_input_tokens":0,"cache_read_input_tokens":1,"output_tokens":9,)"
       R"("output_tokens_details":{"thinking_tokens":2}})"},
  };
  std::string text;
  for (const auto& [name, members] : expected) {
    text +=
        std::string("event: ") + name + "\ndata: {\"type\":\"" + name + "\"," + members + "}\n\n";
  }
  EXPECT_EQ(without_call_ids(reply.body),
            text + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

TEST_F(AnthropicTest, ThinkingThatIsOmittedLeavesItsBlock) {
  start(everything);
  const std::string omitted = R"(,"thinking":{"type":"adaptive","display":"omitted"})";
  EXPECT_THAT(ask_for(omitted).body,
              HasSubstr(R"("content":[{"type":"thinking","thinking":"","signature":"c3Rva2Vy"},)"));
  const HttpReply stream = ask_for(omitted + R"(,"stream":true)");
  EXPECT_THAT(stream.body, HasSubstr("signature_delta"));
  EXPECT_THAT(stream.body, Not(HasSubstr("thinking_delta")));
}

TEST_F(AnthropicTest, WhyItStopped) {
  const struct {
    FinishReason reason;
    std::optional<std::string> stop;
    const char* told;
  } cases[] = {
      {FinishReason::kStop, std::nullopt, R"("stop_reason":"end_turn","stop_sequence":null)"},
      {FinishReason::kStop, "\"", R"("stop_reason":"stop_sequence","stop_sequence":"\"")"},
      {FinishReason::kLength, std::nullopt, R"("stop_reason":"max_tokens","stop_sequence":null)"},
      {FinishReason::kCalls, std::nullopt, R"("stop_reason":"tool_use","stop_sequence":null)"},
  };
  size_t next = 0;
  start([&](const Request&) { return ending(cases[next].reason, cases[next].stop); });
  for (const auto& c : cases) {
    EXPECT_THAT(ask_for().body, HasSubstr(c.told));
    EXPECT_THAT(ask_for(R"(,"stream":true)").body, HasSubstr(c.told));
    ++next;
  }
}

TEST_F(AnthropicTest, AnAnswerWithoutText) {
  start(silent);
  EXPECT_THAT(ask_for().body, HasSubstr(R"("content":[],"stop_reason":"end_turn")"));
  EXPECT_THAT(ask_for(R"(,"stream":true)").body, Not(HasSubstr("content_block")));
}

// Of a call that is cut off there is no input that could be told whole. What an end of text left
// unfinished is text then.
TEST_F(AnthropicTest, ACallThatIsCutOff) {
  start([](const Request& request) {
    Event end = finish_event(FinishReason::kLength, 3);
    if (request.stop.empty()) {
      end = finish_event(FinishReason::kStop, 3);
      end.finish->unfinished_call = "<cut";
    }
    Script script;
    script.steps = {{calling({{0, "now", "{}", true}, {1, "tide", R"({"at)"}}, "So")}, {end}};
    return script;
  });
  const std::string now = R"({"type":"tool_use","id":"ID","name":"now","input":{}}],)";
  EXPECT_THAT(
      without_call_ids(ask_for(R"(,"stop_sequences":["x"])").body),
      HasSubstr(R"([{"type":"text","text":"So"},)" + now + R"("stop_reason":"max_tokens")"));
  EXPECT_THAT(without_call_ids(ask_for().body),
              HasSubstr(R"([{"type":"text","text":"So<cut"},)" + now));
  const HttpReply stream = ask_for(R"(,"stream":true,"stop_sequences":["x"])");
  EXPECT_THAT(stream.body, HasSubstr(R"("partial_json":"{\"at")"));
  EXPECT_THAT(stream.body, HasSubstr(R"("index":2})"));
}

// ---- Counting

TEST_F(AnthropicTest, CountsTokens) {
  start(hello);
  const std::string path = "/v1/messages/count_tokens";
  HttpReply reply = ask(post(path, R"({"messages":[{"role":"user","content":"q"}]})"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"input_tokens":3})");
  EXPECT_EQ(engine_->requests().size(), 0U);
  reply = ask(post(path, "{}"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body, R"({"type":"error","error":{"type":"invalid_request_error",)"
                        R"("message":"messages: expected a value, found none"}})");
}

// ---- Failures

TEST_F(AnthropicTest, FailuresHaveTheirShape) {
  const struct {
    Error error;
    int status;
    const char* type;
    const char* retry_after = "";
  } cases[] = {
      {{ErrorCode::kInvalidArgument, "x", "messages"}, 400, "invalid_request_error"},
      {{ErrorCode::kUnsupported, "x", "tool_choice"}, 400, "invalid_request_error"},
      {{ErrorCode::kNotFound, "x", ""}, 404, "not_found_error"},
      {{ErrorCode::kOverloaded, "x", ""}, 429, "rate_limit_error", "1"},
      {{ErrorCode::kDeadlineExceeded, "x", ""}, 504, "timeout_error"},
      {{ErrorCode::kResourceExhausted, "x", ""}, 529, "overloaded_error", "1"},
      {{ErrorCode::kCancelled, "x", ""}, 529, "overloaded_error", "10"},
      {{ErrorCode::kInternal, "x", ""}, 500, "api_error"},
  };
  size_t next = 0;
  start([&](const Request&) {
    Script script;
    script.refusal = cases[next].error;
    return script;
  });
  for (const auto& c : cases) {
    const HttpReply reply = ask_for();
    EXPECT_EQ(reply.status, c.status);
    EXPECT_EQ(reply.body, R"({"type":"error","error":{"type":")" + std::string(c.type) +
                              R"(","message":"x"}})");
    EXPECT_EQ(reply.header("retry-after"), c.retry_after);
    ++next;
  }
}

// The engine calls fields as chats do.
TEST_F(AnthropicTest, AFailureNamesTheFieldThatTheClientSent) {
  start([](const Request&) {
    Script script;
    script.refusal = Error{ErrorCode::kUnsupported, "response_format: #/if: no", "response_format"};
    return script;
  });
  EXPECT_EQ(
      ask_for(R"(,"output_config":{"format":{"type":"json_schema","schema":{"if":{}}}})").body,
      R"({"type":"error","error":{"type":"invalid_request_error",)"
      R"("message":"output_config.format: #/if: no"}})");
}

TEST_F(AnthropicTest, WhatTheHeadRefusesHasTheShapeToo) {
  start(hello);
  HttpReply reply = ask(get("/v1/messages"));
  EXPECT_EQ(reply.status, 405);
  EXPECT_THAT(reply.body, HasSubstr(R"({"type":"error","error":{"type":"invalid_request_error")"));
  reply = ask(get("/v1/messages/batches"));
  EXPECT_EQ(reply.status, 404);
  EXPECT_THAT(reply.body, HasSubstr(R"({"type":"error","error":{"type":"not_found_error")"));
  EXPECT_THAT(ask(get("/v1/messagesx")).body, HasSubstr("NotFoundError"));
  EXPECT_THAT(ask(post("/v1/messages", "{")).body, HasSubstr("invalid_request_error"));
  EXPECT_EQ(ask(post("/v1/messages?beta=true", kAsked + std::string("}"))).status, 200);
  EXPECT_EQ(ask_for(R"(,"model":"another")").status, 404);
}

TEST_F(AnthropicTest, BeforeThereIsAnEngine) {
  listen(hello);
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    const HttpReply reply = ask(post(path, "{}"));
    EXPECT_EQ(reply.status, 529) << path;
    EXPECT_THAT(reply.body, HasSubstr(R"("type":"overloaded_error","message":"the server is st)"));
  }
  server_->attach(*engine_);
}

TEST_F(AnthropicTest, AFailureOfAStreamIsItsLastEvent) {
  start(broken);
  const HttpReply stream = ask_for(R"(,"stream":true)");
  EXPECT_EQ(stream.status, 200);
  EXPECT_THAT(stream.body, HasSubstr("\"text\":\"a\"}}\n\nevent: error\ndata: {\"type\":\"error\","
                                     "\"error\":{\"type\":\"api_error\",\"message\":\"broke\"}}"));
  EXPECT_THAT(stream.body, Not(HasSubstr("message_stop")));
  const HttpReply whole = ask_for();
  EXPECT_EQ(whole.status, 500);
  EXPECT_THAT(whole.body, HasSubstr("api_error"));
}

TEST_F(AnthropicTest, SilenceIsToldByAnEvent) {
  ServerOptions options;
  options.ping_interval = std::chrono::milliseconds(20);
  start(endless, options);
  TestClient client(port());
  client.send(post("/v1/messages", kAsked + std::string(R"(,"stream":true})")));
  EXPECT_TRUE(
      client.read_until("event: ping\ndata: {\"type\":\"ping\"}\n\n", std::chrono::seconds(5)));
}

}  // namespace
}  // namespace stoker
