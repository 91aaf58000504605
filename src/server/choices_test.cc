// Several choices, the best of more, and log-probabilities, in the shapes that clients read.
#include <gmock/gmock.h>

#include "base/json.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Event event_of(int32_t choice, int32_t id, const std::string& text, float logprob) {
  Event event;
  event.choice = choice;
  event.ids = {id};
  event.text = text;
  event.num_shown = 1;
  TokenDetail detail;
  detail.logprobs = {logprob, 2, {{id + 1, -0.25F}, {id, logprob}}};
  event.details = {detail};
  return event;
}

Event end_of(int32_t choice) {
  Event event = finish_event(FinishReason::kStop, 2);
  event.choice = choice;
  event.num_shown = 1;
  return event;
}

// Choice j says "j" with the log-probability -1 - (j - 2)^2: the third is the likeliest.
Script choices(const Request& request) {
  Script script;
  for (int32_t j = 0; j < request.n; ++j) {
    const auto off = static_cast<float>(j - 2);
    script.steps.push_back({event_of(j, 10 * j, std::to_string(j), -1 - off * off)});
  }
  for (int32_t j = request.n - 1; j >= 0; --j) script.steps.push_back({end_of(j)});
  return script;
}

// The member `name` of each choice of an answer, as text.
std::vector<std::string> members(const HttpReply& reply, const char* name) {
  std::vector<std::string> out;
  const auto body = Json::parse(reply.body);
  if (!body || body->find("choices") == nullptr) return {reply.body};
  for (const Json& choice : body->find("choices")->items())
    out.push_back(choice.find(name)->dump());
  return out;
}

class ChoicesTest : public ServerTest {
 protected:
  HttpReply complete(const std::string& fields) {
    return ask(post("/v1/completions", R"({"prompt":"x",)" + fields + "}"));
  }
  HttpReply chat(const std::string& fields) {
    return ask(post("/v1/chat/completions",
                    R"({"messages":[{"role":"user","content":"q"}],)" + fields + "}"));
  }
};

TEST_F(ChoicesTest, AreToldByIndexAndPromptsCountOnce) {
  start(choices);
  const HttpReply reply = complete(R"("n":3)");
  EXPECT_THAT(members(reply, "text"), ElementsAre(R"("0")", R"("1")", R"("2")"));
  EXPECT_THAT(members(reply, "index"), ElementsAre("0", "1", "2"));
  EXPECT_THAT(members(reply, "seed"), ElementsAre("7", "8", "9"));
  EXPECT_THAT(reply.body, HasSubstr(R"("prompt_tokens":3,"completion_tokens":6)"));
  const HttpReply several = ask(post("/v1/completions", R"({"prompt":["x","y"],"n":2})"));
  EXPECT_THAT(members(several, "text"), ElementsAre(R"("0")", R"("1")", R"("0")", R"("1")"));
  EXPECT_THAT(members(several, "index"), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(several.body, HasSubstr(R"("prompt_tokens":6,"completion_tokens":8)"));
}

TEST_F(ChoicesTest, StreamEachWithItsIndexAndEnd) {
  start(choices);
  const auto events = chat(R"("n":2,"stream":true)").events();
  ASSERT_EQ(events.size(), 7U);
  EXPECT_THAT(events[0], HasSubstr(R"("index":0,"delta":{"role")"));
  EXPECT_THAT(events[1], HasSubstr(R"("index":1,"delta":{"role")"));
  EXPECT_THAT(events[2], HasSubstr(R"("index":0,"delta":{"content":"0"})"));
  EXPECT_THAT(events[3], HasSubstr(R"("index":1,"delta":{"content":"1"})"));
  EXPECT_THAT(events[4],
              HasSubstr(R"("index":1,"delta":{},"logprobs":null,"finish_reason":"stop")"));
  EXPECT_THAT(events[4], HasSubstr(R"("seed":8}],"seed":7)"));
  EXPECT_THAT(events[5],
              HasSubstr(R"("index":0,"delta":{},"logprobs":null,"finish_reason":"stop")"));
  EXPECT_EQ(events[6], "[DONE]");
}

TEST_F(ChoicesTest, TheBestComeFirstAndAllTheirTokensCount) {
  start(choices);
  const HttpReply reply = complete(R"("n":2,"best_of":4)");
  EXPECT_THAT(members(reply, "text"), ElementsAre(R"("2")", R"("1")")) << "1 and 3 are equal";
  EXPECT_THAT(members(reply, "index"), ElementsAre("0", "1"));
  EXPECT_THAT(members(reply, "logprobs"), ElementsAre("null", "null"));
  EXPECT_THAT(reply.body, HasSubstr(R"("prompt_tokens":3,"completion_tokens":8)"));
}

TEST_F(ChoicesTest, EachHasItsReceiptIfAskedFor) {
  start([](const Request& request) {
    Script script = choices(request);
    for (ScriptStep& step : script.steps) {
      if (request.receipt && step.event.finish)
        step.event.finish->receipt = "{\"of\":" + std::to_string(step.event.choice) + "}";
    }
    return script;
  });
  const std::string wanted = R"("n":2,"receipt":true)";
  EXPECT_THAT(members(complete(wanted), "receipt"), ElementsAre(R"({"of":0})", R"({"of":1})"));
  EXPECT_THAT(members(chat(wanted), "receipt"), ElementsAre(R"({"of":0})", R"({"of":1})"));
  EXPECT_THAT(members(complete(R"("n":1,"best_of":4,"receipt":true)"), "receipt"),
              ElementsAre(R"({"of":2})"))
      << "of the choice that is told";
  for (const auto& events : {complete(R"("stream":true,)" + wanted).events(),
                             chat(R"("stream":true,)" + wanted).events()}) {
    int num_told = 0;
    for (const std::string& event : events) {
      const bool is_end = event.find(R"("finish_reason":"stop")") != std::string::npos;
      EXPECT_EQ(event.find("receipt") != std::string::npos, is_end) << event;
      num_told += is_end ? 1 : 0;
    }
    EXPECT_EQ(num_told, 2);
    EXPECT_THAT(events[events.size() - 2],
                HasSubstr(R"("stop_reason":null,"seed":7,"receipt":{"of":0}}],"seed":7)"));
  }
  EXPECT_THAT(complete(R"("receipt":false)").body, Not(HasSubstr("receipt")));
}

TEST_F(ChoicesTest, OneThatFailsEndsAll) {
  start([](const Request& request) {
    Script script = choices(request);
    script.steps.back().event.finish->reason = FinishReason::kError;
    script.steps.back().event.finish->error = Error{ErrorCode::kResourceExhausted, "no memory", ""};
    return script;
  });
  EXPECT_EQ(complete(R"("n":3)").status, 503);
}

TEST_F(ChoicesTest, AClientThatGoesAwayEndsAllChoices) {
  start([](const Request& request) {
    Script script = choices(request);
    script.steps.resize(static_cast<size_t>(request.n));
    script.repeat_last = true;
    script.steps.back().delay = std::chrono::milliseconds(5);
    return script;
  });
  {
    TestClient client(port());
    client.send(post("/v1/completions", R"({"prompt":"x","n":3,"stream":true})"));
    ASSERT_TRUE(engine_->wait_for_requests(1));
  }
  EXPECT_TRUE(engine_->wait_until_idle());
}

TEST_F(ChoicesTest, LogprobsOfCompletions) {
  start(choices);
  const HttpReply reply = complete(R"("logprobs":2)");
  EXPECT_THAT(members(reply, "logprobs"),
              ElementsAre(R"({"tokens":["<0>"],"token_logprobs":[-5],)"
                          R"("top_logprobs":[{"<1>":-0.25,"<0>":-5}],"text_offset":[0]})"));
  const auto events = complete(R"("logprobs":0,"stream":true)").events();
  EXPECT_THAT(events[0], HasSubstr(R"("text":"0","logprobs":{"tokens":["<0>"])"));
  EXPECT_THAT(events[1], HasSubstr(R"("logprobs":null,"finish_reason":"stop")"));
  EXPECT_THAT(members(complete(R"("logprobs":null)"), "logprobs"), ElementsAre("null"));
}

TEST_F(ChoicesTest, LogprobsOfChats) {
  start(choices);
  const std::string entry = R"({"token":"<0>","logprob":-5,"bytes":[60,48,62],"top_logprobs":[)"
                            R"({"token":"<1>","logprob":-0.25,"bytes":[60,49,62]},)"
                            R"({"token":"<0>","logprob":-5,"bytes":[60,48,62]}]})";
  EXPECT_THAT(members(chat(R"("logprobs":true,"top_logprobs":2)"), "logprobs"),
              ElementsAre(R"({"content":[)" + entry + R"(],"refusal":null})"));
  const auto events = chat(R"("logprobs":true,"top_logprobs":2,"stream":true)").events();
  EXPECT_THAT(events[0], HasSubstr(R"("logprobs":null)"));
  EXPECT_THAT(events[1], HasSubstr(R"("logprobs":{"content":[)" + entry));
}

// Reasoning has a list of its own; hidden tokens have none; those that wait for their text come
// with it, and what is cut off never.
TEST_F(ChoicesTest, LogprobsComeWithTheTextOfTheirTokens) {
  start([](const Request&) {
    Script script;
    Event event = event_of(0, 1, "", -1);
    event.details[0].part = TokenPart::kReasoning;
    event.reasoning = "r";
    script.steps.push_back({event});
    event = event_of(0, 2, "", -2);
    event.details[0].part = TokenPart::kHidden;
    event.num_shown = 2;
    script.steps.push_back({event});
    event = event_of(0, 3, "", -3);  // held back
    event.num_shown = 2;
    script.steps.push_back({event});
    event = event_of(0, 4, "ab", -4);
    event.num_shown = 4;
    script.steps.push_back({event});
    event = event_of(0, 5, "", -5);  // the stop string
    event.num_shown = 4;
    script.steps.push_back({event});
    event = finish_event(FinishReason::kStop, 5, "stop");
    event.num_shown = 4;
    script.steps.push_back({event});
    return script;
  });
  const HttpReply reply = chat(R"("logprobs":true)");
  const auto body = Json::parse(reply.body);
  ASSERT_TRUE(body.has_value());
  const Json& logprobs = *body->find("choices")->items()[0].find("logprobs");
  const auto values = [&logprobs](const char* name) {
    std::vector<double> out;
    for (const Json& entry : logprobs.find(name)->items())
      out.push_back(*entry.find("logprob")->as_double());
    return out;
  };
  EXPECT_THAT(values("reasoning_content"), ElementsAre(-1));
  EXPECT_THAT(values("content"), ElementsAre(-3, -4));
  const HttpReply all = chat(R"("logprobs":true,"logprobs_scope":"all")");
  std::string ids;
  const auto told = Json::parse(all.body);
  const Json& of_all = *told->find("choices")->items()[0].find("logprobs");
  for (const Json& entry : of_all.find("content")->items()) ids += entry.find("token")->as_string();
  EXPECT_EQ(ids, "<1><2><3><4>") << "those without text too";
  EXPECT_EQ(of_all.find("reasoning_content"), nullptr);

  const auto events = chat(R"("logprobs":true,"stream":true)").events();
  ASSERT_EQ(events.size(), 5U);
  EXPECT_THAT(events[1], HasSubstr(R"("delta":{"reasoning":"r")"));
  EXPECT_THAT(events[1], HasSubstr(R"("reasoning_content":[{"token":"<1>")"));
  EXPECT_THAT(events[2], HasSubstr(R"("content":[{"token":"<3>")"));
  EXPECT_THAT(events[2], HasSubstr(R"({"token":"<4>")"));
  EXPECT_THAT(events[3], Not(HasSubstr("<5>")));
}

TEST_F(ChoicesTest, LogprobsOfPrompts) {
  start([](const Request& request) {
    Script script = choices(request);
    script.steps[0].event.prompt_logprobs = {{-1, 1, {{2, -1}}}, {-2.5F, 4, {{9, -0.5F}}}};
    return script;
  });
  const std::string expected = R"([null,{"2":{"logprob":-1,"rank":1,"decoded_token":"<2>"}},)"
                               R"({"3":{"logprob":-2.5,"rank":4,"decoded_token":"<3>"},)"
                               R"("9":{"logprob":-0.5,"rank":1,"decoded_token":"<9>"}}])";
  EXPECT_THAT(members(complete(R"("prompt_logprobs":1)"), "prompt_logprobs"),
              ElementsAre(expected));
  EXPECT_THAT(chat(R"("prompt_logprobs":1)").body,
              HasSubstr(R"(,"prompt_logprobs":)" + expected + R"(,"seed":7})"));
}

// A prompt of <1>, <2>, <3>, 9 characters; what is chosen says "0".
Script scored(const Request& request) {
  Script script = choices(request);
  if (request.prompt_logprobs)
    script.steps[0].event.prompt_logprobs = {{-1, 1, {{2, -1}}}, {-2.5F, 4, {{9, -0.5F}}}};
  return script;
}

TEST_F(ChoicesTest, EchoPutsThePromptInFront) {
  start(scored);
  EXPECT_THAT(members(complete(R"("echo":true,"n":2)"), "text"),
              ElementsAre(R"("<1><2><3>0")", R"("<1><2><3>1")"));
  const HttpReply reply = complete(R"("echo":true,"logprobs":1)");
  EXPECT_THAT(
      members(reply, "logprobs"),
      ElementsAre(R"({"tokens":["<1>","<2>","<3>","<0>"],"token_logprobs":[null,-1,-2.5,-5],)"
                  R"("top_logprobs":[null,{"<2>":-1},{"<9>":-0.5},{"<1>":-0.25,"<0>":-5}],)"
                  R"("text_offset":[0,3,6,9]})"));
  EXPECT_THAT(reply.body, Not(HasSubstr("prompt_logprobs")));
  const auto events = complete(R"("echo":true,"stream":true)").events();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_THAT(events[0], HasSubstr(R"("text":"<1><2><3>")"));
  EXPECT_THAT(events[1], HasSubstr(R"("text":"0")"));
}

TEST_F(ChoicesTest, APromptIsScoredAlone) {
  start(scored);
  const HttpReply reply = complete(R"("echo":true,"max_tokens":0,"logprobs":0)");
  EXPECT_THAT(members(reply, "text"), ElementsAre(R"("<1><2><3>")"));
  EXPECT_THAT(members(reply, "finish_reason"), ElementsAre(R"("length")"));
  EXPECT_THAT(members(reply, "logprobs"),
              ElementsAre(R"({"tokens":["<1>","<2>","<3>"],"token_logprobs":[null,-1,-2.5],)"
                          R"("top_logprobs":null,"text_offset":[0,3,6]})"));
  EXPECT_THAT(reply.body, HasSubstr(R"("prompt_tokens":3,"completion_tokens":0,"total_tokens":3)"));
  const auto events = complete(R"("echo":true,"max_tokens":0,"stream":true)").events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_THAT(events[1], HasSubstr(R"("text":"")"));
}

TEST_F(ChoicesTest, IdsAreToldIfAskedFor) {
  start(scored);
  HttpReply reply = complete(R"("return_token_ids":true,"n":2)");
  EXPECT_THAT(members(reply, "token_ids"), ElementsAre("[0]", "[10]"));
  EXPECT_THAT(members(reply, "prompt_token_ids"), ElementsAre("[1,2,3]", "[1,2,3]"));
  reply = chat(R"("return_token_ids":true)");
  EXPECT_THAT(members(reply, "token_ids"), ElementsAre("[0]"));
  EXPECT_THAT(reply.body, HasSubstr(R"(,"prompt_token_ids":[1,2,3],"seed":7})"));
  const auto events = complete(R"("return_token_ids":true,"stream":true)").events();
  EXPECT_THAT(events[0], HasSubstr(R"("prompt_token_ids":[1,2,3],"token_ids":[0]}])"));
  EXPECT_THAT(events[1], HasSubstr(R"("stop_reason":null,"token_ids":[]}])"));
  EXPECT_THAT(members(complete(R"("return_tokens_as_token_ids":true,"logprobs":1)"), "logprobs"),
              ElementsAre(R"({"tokens":["token_id:0"],"token_logprobs":[-5],"top_logprobs":)"
                          R"([{"token_id:1":-0.25,"token_id:0":-5}],"text_offset":[0]})"));
}

TEST_F(ChoicesTest, ReasoningMayBeLeftOut) {
  start([](const Request&) {
    Script script;
    script.steps = {{reasoning_event("secret")}, {text_event("told")}};
    script.steps.push_back({finish_event(FinishReason::kStop, 2)});
    return script;
  });
  EXPECT_THAT(chat(R"("include_reasoning":true)").body, HasSubstr("secret"));
  for (const char* more : {"", R"(,"stream":true)"}) {
    const HttpReply reply = chat(R"("include_reasoning":false)" + std::string(more));
    EXPECT_THAT(reply.body, Not(HasSubstr("secret")));
    EXPECT_THAT(reply.body, HasSubstr("told"));
  }
}

TEST_F(ChoicesTest, AStopTokenIsTold) {
  start([](const Request& request) {
    Script script = choices(request);
    script.steps.back().event.finish->stop_token = 42;
    return script;
  });
  EXPECT_THAT(members(complete(R"("stop_token_ids":[42])"), "stop_reason"), ElementsAre("42"));
}

}  // namespace
}  // namespace stoker
