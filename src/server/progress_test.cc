// What a stream tells while its prompt is read, and how an answer that repeats itself ends.
#include <gmock/gmock.h>

#include "base/json.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using testing::HasSubstr;
using testing::Not;

Script reading(const Request& request) {
  Script script;
  for (int32_t processed = 128; processed <= 384; processed += 128) {
    Event event;
    event.prompt_progress = PromptProgress{384, 64, processed, Seconds(processed * 1e-3)};
    if (request.return_progress) script.steps.push_back({event});
  }
  script.steps.push_back({text_event("word")});
  script.steps.push_back({finish_event(FinishReason::kStop, 2)});
  return script;
}

Script repeating(const Request& /*request*/) {
  Script script;
  script.steps.push_back({text_event("la la")});
  script.steps.push_back({finish_event(FinishReason::kRepetition, 2)});
  return script;
}

TEST_F(ServerTest, ProgressIsToldInChunksWithoutText) {
  start(reading);
  const auto events = ask(post("/v1/chat/completions",
                               R"({"messages":[{"role":"user","content":"q"}],"stream":true,)"
                               R"("return_progress":true})"))
                          .events();
  ASSERT_EQ(events.size(), 7U);
  EXPECT_THAT(events[0], HasSubstr(R"("delta":{"role":"assistant","content":""})"));
  for (size_t i = 1; i <= 3; ++i) {
    const std::string number = std::to_string(128 * i);
    EXPECT_THAT(events[i], HasSubstr(R"("index":0,"delta":{},)"));
    EXPECT_THAT(events[i], HasSubstr(R"("prompt_progress":{"total":384,"cache":64,"processed":)" +
                                     number + R"(,"time_ms":)" + number));
    EXPECT_TRUE(Json::parse(events[i])) << events[i];
  }
  EXPECT_THAT(events[4], HasSubstr(R"("delta":{"content":"word"})"));
  EXPECT_THAT(events[4], Not(HasSubstr("prompt_progress")));
  const auto text = ask(post("/v1/completions", R"({"prompt":["x","y"],"stream":true,)"
                                                R"("return_progress":true})"));
  EXPECT_THAT(text.body, HasSubstr(R"("index":1,"text":"",)"));
  EXPECT_THAT(ask(post("/v1/completions", R"({"prompt":"x","stream":true})")).body,
              Not(HasSubstr("prompt_progress")));
  EXPECT_EQ(ask(post("/v1/completions", R"({"prompt":"x","return_progress":true})")).status, 400);
}

TEST_F(ServerTest, ARepetitionIsAnEndOfItsOwn) {
  start(repeating);
  EXPECT_THAT(ask(post("/v1/completions", R"({"prompt":"x"})")).body,
              HasSubstr(R"("finish_reason":"repetition","stop_reason":null)"));
  const std::string response = ask(post("/v1/responses", R"({"input":"x"})")).body;
  EXPECT_THAT(response, HasSubstr(R"("status":"incomplete")"));
  EXPECT_THAT(response, HasSubstr(R"("incomplete_details":{"reason":"repetition"})"));
}

}  // namespace
}  // namespace stoker
