// Answers, streams and failures in the shapes that clients of OpenAI's Responses interface read.
#include <gmock/gmock.h>

#include <regex>

#include "base/json.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Ids of items are random, times pass.
std::string masked_response(std::string text) {
  text = std::regex_replace(text, std::regex(R"(\b(rs|msg|fc|call)_[0-9a-f]{24})"), "$1_ID");
  return std::regex_replace(text, std::regex(R"("created_at":[0-9]+)"), R"("created_at":0)");
}

Event with_calls(std::vector<CallPiece> calls, std::string text = "") {
  Event event = text_event(std::move(text));
  event.calls = std::move(calls);
  return event;
}

// Thinks, speaks and makes two calls; 1 of its 3 prompt tokens was in the cache.
Script all_kinds(const Request& /*request*/) {
  Event end = finish_event(FinishReason::kCalls, 9);
  end.finish->usage.cached_tokens = 1;
  end.finish->usage.reasoning_tokens = 2;
  end.finish->seed = 7;
  Script script;
  script.steps = {{reasoning_event("let me ")},
                  {reasoning_event("think")},
                  {text_event("Well,\n")},
                  {with_calls({{0, "tide", R"({"at": "H)"}}, "then")},
                  {with_calls({{0, std::nullopt, R"(ull"})", true}, {1, "now", "{}", true}})},
                  {end}};
  return script;
}

const char* const kRepeatedOfNothing =
    R"("instructions":null,"max_output_tokens":null,"metadata":{},)"
    R"("parallel_tool_calls":true,"reasoning":{"effort":null,"summary":null},)"
    R"("temperature":null,"text":{"format":{"type":"text"}},"tool_choice":"auto",)"
    R"("tools":[],"top_logprobs":0,"top_p":null,"user":null)";

std::string response_with(const std::string& status, const std::string& details,
                          const std::string& output, const std::string& end) {
  return R"({"id":"resp_r1","object":"response","created_at":0,"status":")" + status +
         R"(","background":false,"store":false,"previous_response_id":null,)"
         R"("truncation":"disabled","error":null,"incomplete_details":)" +
         details + R"(,"model":"scripted",)" + kRepeatedOfNothing + R"(,"output":[)" + output +
         "],\"usage\":" + end + "}";
}

const char* const kReasoningPart = R"({"type":"reasoning_text","text":"let me think"})";
const char* const kTextPart =
    R"({"type":"output_text","text":"Well,\nthen","annotations":[],"logprobs":[]})";
const char* const kTideCall =
    R"({"id":"fc_ID","status":"completed","type":"function_call","call_id":"call_ID",)"
    R"("name":"tide","arguments":"{\"at\": \"Hull\"}"})";
const char* const kNowCall =
    R"({"id":"fc_ID","status":"completed","type":"function_call","call_id":"call_ID",)"
    R"("name":"now","arguments":"{}"})";

std::string reasoning_item() {
  return R"({"id":"rs_ID","status":"completed","type":"reasoning","summary":[],"content":[)" +
         std::string(kReasoningPart) + "]}";
}

std::string message_item() {
  return R"({"id":"msg_ID","status":"completed","type":"message","role":"assistant","content":[)" +
         std::string(kTextPart) + "]}";
}

std::string whole_response() {
  return response_with(
      "completed", "null",
      reasoning_item() + "," + message_item() + "," + kTideCall + "," + kNowCall,
      R"({"input_tokens":3,"input_tokens_details":{"cached_tokens":1,"cache_write_tokens":0},)"
      R"("output_tokens":9,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":12},)"
      R"("seed":7)");
}

class ResponsesTest : public ServerTest {
 protected:
  HttpReply ask_for(const std::string& members = "") {
    return ask(post("/v1/responses", R"({"input":"q")" + members + "}", "X-Request-Id: r1\r\n"));
  }
};

TEST_F(ResponsesTest, AWholeAnswer) {
  start(all_kinds);
  const HttpReply reply = ask_for();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "application/json");
  EXPECT_EQ(reply.header("x-request-id"), "r1");
  EXPECT_EQ(masked_response(reply.body), whole_response());
  std::smatch match;
  ASSERT_TRUE(std::regex_search(reply.body, match,
                                std::regex(R"((call_[0-9a-f]{24}).*(call_[0-9a-f]{24}))")));
  EXPECT_NE(match[1], match[2]);
}

TEST_F(ResponsesTest, AStream) {
  start(all_kinds);
  const HttpReply reply = ask_for(R"(,"stream":true)");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "text/event-stream; charset=utf-8");
  const std::string begun = "\"response\":" + response_with("in_progress", "null", "", "null");
  const std::string tide = R"("item_id":"fc_ID","output_index":2)";
  const std::pair<const char*, std::string> expected[] = {
      {"response.created", begun},
      {"response.in_progress", begun},
      {"response.output_item.added",
       R"("output_index":0,"item":{"id":"rs_ID","status":"in_progress","type":"reasoning","summary":[],"content":[]})"},
      {"response.content_part.added",
       R"("item_id":"rs_ID","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":""})"},
      {"response.reasoning_text.delta",
       R"("item_id":"rs_ID","output_index":0,"content_index":0,"delta":"let me ")"},
      {"response.reasoning_text.delta",
       R"("item_id":"rs_ID","output_index":0,"content_index":0,"delta":"think")"},
      {"response.reasoning_text.done",
       R"("item_id":"rs_ID","output_index":0,"content_index":0,"text":"let me think")"},
      {"response.content_part.done",
       R"("item_id":"rs_ID","output_index":0,"content_index":0,"part":)" +
           std::string(kReasoningPart)},
      {"response.output_item.done", R"("output_index":0,"item":)" + reasoning_item()},
      {"response.output_item.added",
       R"("output_index":1,"item":{"id":"msg_ID","status":"in_progress","type":"message","role":"assistant","content":[]})"},
      {"response.content_part.added",
       R"("item_id":"msg_ID","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]})"},
      {"response.output_text.delta",
       R"("item_id":"msg_ID","output_index":1,"content_index":0,"delta":"Well,\n","logprobs":[])"},
      {"response.output_text.delta",
       R"("item_id":"msg_ID","output_index":1,"content_index":0,"delta":"then","logprobs":[])"},
      {"response.output_text.done",
       R"("item_id":"msg_ID","output_index":1,"content_index":0,"text":"Well,\nthen","logprobs":[])"},
      {"response.content_part.done",
       R"("item_id":"msg_ID","output_index":1,"content_index":0,"part":)" + std::string(kTextPart)},
      {"response.output_item.done", R"("output_index":1,"item":)" + message_item()},
      {"response.output_item.added",
       R"("output_index":2,"item":{"id":"fc_ID","status":"in_progress","type":"function_call","call_id":"call_ID","name":"tide","arguments":""})"},
      {"response.function_call_arguments.delta", tide + R"(,"delta":"{\"at\": \"H")"},
      {"response.function_call_arguments.delta", tide + R"(,"delta":"ull\"}")"},
      {"response.function_call_arguments.done", tide + R"(,"arguments":"{\"at\": \"Hull\"}")"},
      {"response.output_item.done", R"("output_index":2,"item":)" + std::string(kTideCall)},
      {"response.output_item.added",
       R"("output_index":3,"item":{"id":"fc_ID","status":"in_progress","type":"function_call","call_id":"call_ID","name":"now","arguments":""})"},
      {"response.function_call_arguments.delta",
       R"("item_id":"fc_ID","output_index":3,"delta":"{}")"},
      {"response.function_call_arguments.done",
       R"("item_id":"fc_ID","output_index":3,"arguments":"{}")"},
      {"response.output_item.done", R"("output_index":3,"item":)" + std::string(kNowCall)},
      {"response.completed", "\"response\":" + whole_response()},
  };
  std::string text;
  int number = 0;
  for (const auto& [name, members] : expected) {
    text += std::string("event: ") + name + "\ndata: {\"type\":\"" + name +
            "\",\"sequence_number\":" + std::to_string(number++) + "," + members + "}\n\n";
  }
  EXPECT_EQ(masked_response(reply.body), text);
}

TEST_F(ResponsesTest, ReasoningThatIsNotTold) {
  start(all_kinds);
  const std::string hidden = R"(,"include_reasoning":false)";
  EXPECT_THAT(masked_response(ask_for(hidden).body),
              HasSubstr("\"output\":[" + message_item() + ","));
  EXPECT_THAT(ask_for(hidden + R"(,"stream":true)").body, Not(HasSubstr("let me")));
}

// ---- Ends

// Speaks, or begins a call, before it ends for that reason.
Script cut_off(FinishReason reason, bool has_call) {
  Script script;
  script.steps = {{text_event("Paris")}};
  if (has_call) script.steps.push_back({with_calls({{0, "tide", R"({"at)"}})});
  script.steps.push_back({finish_event(reason, 2)});
  return script;
}

TEST_F(ResponsesTest, WhatMaxOutputTokensCutsOffIsIncomplete) {
  bool has_call = false;
  start([&](const Request&) { return cut_off(FinishReason::kLength, has_call); });
  const std::string told = R"("incomplete_details":{"reason":"max_output_tokens"})";
  for (const std::string stream : {"", R"(,"stream":true)"}) {
    const HttpReply reply = ask_for(stream);
    EXPECT_THAT(reply.body, HasSubstr(R"("status":"incomplete","background")"));
    EXPECT_THAT(reply.body, HasSubstr(told));
    EXPECT_THAT(masked_response(reply.body), HasSubstr(R"({"id":"msg_ID","status":"incomplete",)"));
    EXPECT_EQ(reply.body.find("event: response.incomplete\n") == std::string::npos, stream.empty());
  }
  has_call = true;
  for (const std::string stream : {"", R"(,"stream":true)"}) {
    const std::string body = masked_response(ask_for(stream).body);
    EXPECT_THAT(body, HasSubstr(R"({"id":"msg_ID","status":"completed",)"));
    EXPECT_THAT(
        body,
        HasSubstr(
            R"("output":[{"id":"msg_ID","status":"completed","type":"message","role":"assistant","content":[{"type":"output_text","text":"Paris","annotations":[],"logprobs":[]}]},)"
            R"({"id":"fc_ID","status":"incomplete","type":"function_call","call_id":"call_ID","name":"tide","arguments":"{\"at"}])"));
  }
}

// What an end of text left unfinished of a call is text in a whole answer.
TEST_F(ResponsesTest, ACallThatIsNoneInTheEnd) {
  start([](const Request&) {
    Script script = cut_off(FinishReason::kStop, true);
    script.steps.back().event.finish->unfinished_call = "<cut";
    return script;
  });
  EXPECT_THAT(masked_response(ask_for().body),
              HasSubstr(R"("text":"Paris<cut","annotations":[],"logprobs":[]}]}],)"));
  const std::string stream = masked_response(ask_for(R"(,"stream":true)").body);
  EXPECT_THAT(stream, HasSubstr(R"("item":{"id":"fc_ID","status":"incomplete")"));
  EXPECT_THAT(stream, HasSubstr("event: response.completed\n"));
}

TEST_F(ResponsesTest, AnAnswerWithoutText) {
  start(silent);
  EXPECT_THAT(ask_for().body, HasSubstr(R"("output":[],"usage":{"input_tokens":3)"));
  EXPECT_THAT(ask_for(R"(,"stream":true)").body, Not(HasSubstr("output_item")));
}

// ---- Log-probabilities

TEST_F(ResponsesTest, LogprobsOfTheText) {
  start([](const Request& request) {
    const auto told = [&request](Event event, int32_t id, TokenPart part) {
      event.ids = {id};
      if (request.logprobs) event.details = {{{-0.5F, 1, {{id, -0.5F}, {9, -1.5F}}}, part, 0}};
      event.num_shown = id;
      return event;
    };
    Script script;
    script.steps = {{told(reasoning_event("hm"), 1, TokenPart::kReasoning)},
                    {told(text_event("a"), 2, TokenPart::kContent)},
                    {told(text_event("b"), 3, TokenPart::kContent)},
                    {finish_event(FinishReason::kStop, 3)}};
    return script;
  });
  const auto entry = [](char digit) {
    const std::string id(1, digit);
    const std::string bytes = ",\"bytes\":[60," + std::to_string(int{digit}) + ",62]";
    return R"({"token":"<)" + id + R"(>","logprob":-0.5)" + bytes +
           R"(,"top_logprobs":[{"token":"<)" + id + R"(>","logprob":-0.5)" + bytes +
           R"(},{"token":"<9>","logprob":-1.5,"bytes":[60,57,62]}]})";
  };
  const std::string members = R"(,"include":["message.output_text.logprobs"],"top_logprobs":2)";
  const std::string both = "\"logprobs\":[" + entry('2') + "," + entry('3') + "]";
  EXPECT_THAT(ask_for(members).body, HasSubstr("\"annotations\":[]," + both));
  const HttpReply stream = ask_for(members + R"(,"stream":true)");
  EXPECT_THAT(stream.body, HasSubstr("\"delta\":\"a\",\"logprobs\":[" + entry('2') + "]"));
  EXPECT_THAT(stream.body, HasSubstr("\"delta\":\"b\",\"logprobs\":[" + entry('3') + "]"));
  EXPECT_THAT(stream.body, HasSubstr("\"text\":\"ab\"," + both));
  EXPECT_THAT(ask_for().body, HasSubstr("\"logprobs\":[]"));
}

// ---- Failures

TEST_F(ResponsesTest, WhatFailsBeforeTheStream) {
  start([](const Request&) {
    Script script;
    script.refusal = Error{ErrorCode::kInvalidArgument, "max_tokens: too many", "max_tokens"};
    return script;
  });
  HttpReply reply = ask_for(R"(,"stream":true)");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body, R"({"error":{"message":"max_output_tokens: too many","type":)"
                        R"("BadRequestError","param":"max_output_tokens","code":400}})");
  reply = ask(post("/v1/responses", "{}"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr(R"("message":"input: expected a value, found none")"));
  EXPECT_EQ(ask_for(R"(,"model":"another")").status, 404);
  EXPECT_EQ(ask(get("/v1/responses")).status, 405);
}

TEST_F(ResponsesTest, AFailureOfAStreamIsItsLastEvent) {
  start(broken);
  const HttpReply stream = ask_for(R"(,"stream":true)");
  EXPECT_EQ(stream.status, 200);
  EXPECT_THAT(
      stream.body,
      HasSubstr("\"delta\":\"a\",\"logprobs\":[]}\n\nevent: response.failed\ndata: {\"type\":"
                "\"response.failed\",\"sequence_number\":5,\"response\":{\"id\":\"resp_r1\""));
  EXPECT_THAT(stream.body, HasSubstr(R"("status":"failed","background":false,"store":false,)"
                                     R"("previous_response_id":null,"truncation":"disabled",)"
                                     R"("error":{"code":"server_error","message":"broke"})"));
  EXPECT_THAT(masked_response(stream.body),
              HasSubstr(R"("output":[{"id":"msg_ID","status":"in_progress")"));
  const HttpReply whole = ask_for();
  EXPECT_EQ(whole.status, 500);
  EXPECT_THAT(whole.body, HasSubstr("broke"));
}

TEST_F(ResponsesTest, NothingIsStored) {
  start(hello);
  for (const std::string& request :
       {get("/v1/responses/resp_1"), get("/v1/responses/resp_1/input_items"),
        post("/v1/responses/resp_1/cancel", "{}")}) {
    const HttpReply reply = ask(request);
    EXPECT_EQ(reply.status, 404);
    EXPECT_THAT(reply.body, HasSubstr(": responses are not stored"));
  }
}

}  // namespace
}  // namespace stoker
