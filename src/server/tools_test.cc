// Calls of tools in the shapes that clients read.
#include <gmock/gmock.h>

#include <regex>

#include "base/json.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Ids of calls are random: their places are told apart.
std::string without_ids(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(call_[0-9a-f]{24})"), "ID");
}

std::vector<std::string> deltas(const HttpReply& reply) {
  std::vector<std::string> out;
  for (const std::string& text : reply.events()) {
    const auto event = Json::parse(text);
    const Json* choices = event ? event->find("choices") : nullptr;
    if (choices != nullptr && !choices->items().empty())
      out.push_back(without_ids(choices->items()[0].find("delta")->dump()));
  }
  return out;
}

std::string message(const HttpReply& reply) {
  const auto body = Json::parse(reply.body);
  if (!body || body->find("choices") == nullptr) return reply.body;
  return without_ids(body->find("choices")->items()[0].find("message")->dump());
}

Event pieces(std::vector<CallPiece> calls, std::string text = "") {
  Event event = text_event(std::move(text));
  event.calls = std::move(calls);
  return event;
}

// Two calls; the first one's arguments come in pieces.
Script two_calls(const Request& /*request*/) {
  Script script;
  script.steps = {{pieces({{0, "tide"}}, "Well,")},
                  {pieces({{0, std::nullopt, R"({"at": "H)"}})},
                  {pieces({{0, std::nullopt, R"(ull"})", true}, {1, "now", "{}", true}})},
                  {finish_event(FinishReason::kCalls, 9)}};
  return script;
}

std::string body_with(const std::string& members) {
  return R"({"messages":[{"role":"user","content":"q"}],"tools":[{"type":"function",)"
         R"("function":{"name":"tide"}}])" +
         members + "}";
}

class ToolsTest : public ServerTest {
 protected:
  HttpReply chat(const std::string& members = "") {
    return ask(post("/v1/chat/completions", body_with(members)));
  }
};

TEST_F(ToolsTest, CallsOfAWholeAnswer) {
  start(two_calls);
  const HttpReply reply = chat();
  EXPECT_EQ(
      message(reply),
      R"({"role":"assistant","content":"Well,","tool_calls":[)"
      R"({"id":"ID","type":"function","function":{"name":"tide","arguments":"{\"at\": \"Hull\"}"}},)"
      R"({"id":"ID","type":"function","function":{"name":"now","arguments":"{}"}}],"refusal":null})");
  EXPECT_THAT(reply.body, HasSubstr(R"("finish_reason":"tool_calls","stop_reason":null)"));
  std::smatch match;
  ASSERT_TRUE(std::regex_search(reply.body, match,
                                std::regex(R"((call_[0-9a-f]{24}).*(call_[0-9a-f]{24}))")));
  EXPECT_NE(match[1], match[2]);
}

TEST_F(ToolsTest, CallsOfAStream) {
  start(two_calls);
  const HttpReply reply = chat(R"(,"stream":true)");
  EXPECT_THAT(
      deltas(reply),
      ElementsAre(
          R"({"role":"assistant","content":""})", R"({"content":"Well,"})",
          R"({"tool_calls":[{"index":0,"id":"ID","type":"function","function":{"name":"tide","arguments":""}}]})",
          R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"at\": \"H"}}]})",
          R"({"tool_calls":[{"index":0,"function":{"arguments":"ull\"}"}}]})",
          R"({"tool_calls":[{"index":1,"id":"ID","type":"function","function":{"name":"now","arguments":""}}]})",
          R"({"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]})", "{}"));
  EXPECT_THAT(reply.body, HasSubstr(R"("finish_reason":"tool_calls")"));
}

TEST_F(ToolsTest, ACallThatWasAskedForByNameEndsWithStop) {
  start(two_calls);
  const HttpReply reply = chat(R"(,"tool_choice":{"type":"function","function":{"name":"tide"}})");
  EXPECT_THAT(reply.body, HasSubstr(R"("finish_reason":"stop","stop_reason":null)"));
}

TEST_F(ToolsTest, WithoutTextContentIsNull) {
  start([](const Request&) {
    Script script;
    script.steps = {{pieces({{0, "now", "{}", true}})}, {finish_event(FinishReason::kCalls, 2)}};
    return script;
  });
  EXPECT_THAT(message(chat()), HasSubstr(R"("content":null,"tool_calls":[{"id":"ID")"));
}

// A whole answer that ends within a call has its markup as text; a stream has told it already.
TEST_F(ToolsTest, ACallThatIsCutOffIsNotLost) {
  start([](const Request& request) {
    Script script;
    script.steps = {{pieces({{0, "now", "{}", true}, {1, "tide", R"({"at")"}}, "So")}};
    Event end = finish_event(FinishReason::kStop, 2);
    if (request.max_tokens) {
      end.finish->reason = FinishReason::kLength;
    } else {
      end.finish->unfinished_call = "\n<cut";
    }
    script.steps.push_back({end});
    return script;
  });
  const std::string now =
      R"({"id":"ID","type":"function","function":{"name":"now","arguments":"{}"}})";
  EXPECT_THAT(message(chat()), HasSubstr(R"("content":"So\n<cut","tool_calls":[)" + now + "]"));
  const HttpReply cut = chat(R"(,"max_tokens":2)");
  EXPECT_THAT(message(cut), HasSubstr(R"("content":"So","tool_calls":[)" + now + ","));
  EXPECT_THAT(message(cut), HasSubstr(R"("arguments":"{\"at\"")"));
  EXPECT_THAT(chat(R"(,"stream":true)").body, Not(HasSubstr("cut")));
}

}  // namespace
}  // namespace stoker
