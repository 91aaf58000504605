// Token ids in, token ids out: what the engine is asked, what is refused with its place, and the
// shapes of answers, streams and failures.
#include <gmock/gmock.h>

#include <regex>

#include "base/mapped_file.h"
#include "server/generate_reader.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ParsedRequest> parse_ids(const std::string& members) {
  return parse_request(Route::kGenerate, R"({"token_ids":[5,6])" + members + "}", {"demo"});
}

std::string with_params(const std::string& members) {
  return R"(,"sampling_params":{)" + members + "}";
}

TEST(GenerateReader, FieldsReachTheRequest) {
  const auto parsed = parse_ids(
      R"(,"model":"demo","stream":true,"stream_options":{"include_usage":true},"request_id":"r",)"
      R"("priority":2,"cache_salt":"s","token_offsets":null,"zebra":1)" +
      with_params(
          R"("n":2,"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"seed":5,"stop":["END"],)"
          R"("stop_token_ids":[7],"max_tokens":9,"min_tokens":1,"ignore_eos":true,"logprobs":3,)"
          R"("logit_bias":{"5":1},"allowed_token_ids":[5],"bad_words":["no"],)"
          R"("presence_penalty":1,"frequency_penalty":1,"repetition_penalty":1.5,)"
          R"("detokenize":false,"skip_special_tokens":false,"output_kind":1,"extra_args":null)"));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_TRUE(parsed->form.stream && parsed->form.include_usage && parsed->form.logprobs);
  EXPECT_EQ(parsed->form.num_choices, 2);
  EXPECT_EQ(parsed->request_id, "r");
  EXPECT_THAT(parsed->unknown_fields, ElementsAre("token_offsets", "zebra"));
  ASSERT_EQ(parsed->requests.size(), 1U);
  const Request& request = parsed->requests.front();
  EXPECT_THAT(std::get<TokenPrompt>(request.prompt).ids, ElementsAre(5, 6));
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.min_tokens, 1);
  EXPECT_EQ(request.logprobs, 3);
  EXPECT_EQ(request.priority, 2);
  EXPECT_EQ(request.cache_salt, "s");
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_THAT(request.stop, ElementsAre("END"));
  EXPECT_THAT(request.stop_token_ids, ElementsAre(7));
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.seed, 5U);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5);
  EXPECT_FALSE(parse_ids("")->requests.front().max_tokens);
}

struct BadIds {
  const char* body;
  const char* param;
};

const BadIds kBadIds[] = {
    {"{}", "token_ids"},
    {R"({"token_ids":[]})", "token_ids"},
    {R"({"token_ids":"hi"})", "token_ids"},
    {R"({"token_ids":[1,-1]})", "token_ids[1]"},
    {R"({"token_ids":[1.5]})", "token_ids[0]"},
    {R"({"token_ids":[1],"features":{}})", "features"},
    {R"({"token_ids":[1],"sampling_params":7})", "sampling_params"},
    {R"({"token_ids":[1],"sampling_params":{"temperature":-1}})", "sampling_params.temperature"},
    {R"({"token_ids":[1],"sampling_params":{"stop":["a",7]}})", "sampling_params.stop[1]"},
    {R"({"token_ids":[1],"sampling_params":{"logit_bias":{"x":1}}})",
     "sampling_params.logit_bias.x"},
    {R"({"token_ids":[1],"sampling_params":{"max_tokens":0}})", "sampling_params.max_tokens"},
    {R"({"token_ids":[1],"sampling_params":{"use_beam_search":true}})",
     "sampling_params.use_beam_search"},
    {R"({"token_ids":[1],"sampling_params":{"zebra":null}})", "sampling_params.zebra"},
    {R"({"token_ids":[1],"sampling_params":{"stream":true}})", "sampling_params.stream"},
    {R"({"token_ids":[1],"sampling_params":{"output_kind":7}})", "sampling_params.output_kind"},
    {R"({"token_ids":[1],"stream":true,"sampling_params":{"prompt_logprobs":1}})",
     "sampling_params.prompt_logprobs"},
};

TEST(GenerateReader, WhatIsWrongIsRefusedWithItsPlace) {
  for (const BadIds& bad : kBadIds) {
    SCOPED_TRACE(bad.body);
    const auto parsed = parse_request(Route::kGenerate, bad.body, {"demo"});
    ASSERT_FALSE(parsed.has_value());
    EXPECT_EQ(parsed.error().field, bad.param) << parsed.error().message;
    EXPECT_EQ(parsed.error().message.find(bad.param), 0U) << parsed.error().message;
    EXPECT_EQ(error_code_info(parsed.error().code).http_status, 400);
  }
}

TEST(GenerateReader, TheEnginesNamesAreTold) {
  const auto told = [](const char* field) {
    return in_terms_of(Route::kGenerate,
                       {ErrorCode::kInvalidArgument, std::string(field) + ": no", field});
  };
  EXPECT_EQ(told("prompt").message, "token_ids: no");
  EXPECT_EQ(told("stop_token_ids[2]").field, "sampling_params.stop_token_ids[2]");
  EXPECT_EQ(told("stop_token_ids[2]").message, "sampling_params.stop_token_ids[2]: no");
  EXPECT_EQ(told("priority").field, "priority");
}

TEST(GenerateReader, TheDocumentHasTheTables) {
  const auto document = read_file(STOKER_SOURCE_DIR "/docs/server.md", 1 << 20);
  ASSERT_TRUE(document.has_value()) << document.error().message;
  for (const FieldPlace place : {kInGenerate, kInSamplingParams}) {
    EXPECT_NE(document->find("\n" + fields_markdown(place) + "\n"), std::string::npos)
        << "docs/server.md: expected this table:\n"
        << fields_markdown(place);
    for (const Field& field : request_fields())
      EXPECT_EQ(find_field(place, field.name) == &field, field.is_in(place)) << field.name;
  }
}

// ---- Answers

Event chosen(std::vector<int32_t> ids, const Request& request, int32_t choice = 0) {
  Event event;
  event.choice = choice;
  event.ids = std::move(ids);
  if (!request.logprobs) return event;
  for (const int32_t id : event.ids)
    event.details.push_back({{-0.5F, 1, {{id, -0.5F}}}, TokenPart::kHidden, 0});
  return event;
}

Event ending_of(FinishReason reason, int32_t choice = 0) {
  Event end = finish_event(reason, 3);
  end.choice = choice;
  end.finish->seed = 7 + static_cast<uint64_t>(choice);
  return end;
}

// 11 12 | 13 and the end of text, in each choice.
Script three_ids(const Request& request) {
  Script script;
  for (int32_t choice = 0; choice < request.n; ++choice) {
    script.steps.push_back({chosen({11, 12}, request, choice)});
    Event end = ending_of(FinishReason::kStop, choice);
    end.ids = {13};
    if (request.logprobs) end.details = chosen({13}, request).details;
    script.steps.push_back({end});
  }
  return script;
}

class GenerateTest : public ServerTest {
 protected:
  HttpReply ask_for(const std::string& members = "") {
    return ask(post("/inference/v1/generate", R"({"token_ids":[1,2,3])" + members + "}",
                    "X-Request-Id: r1\r\n"));
  }
};

const char* const kUsage =
    R"("usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6,)"
    R"("prompt_tokens_details":{"cached_tokens":0},)"
    R"("completion_tokens_details":{"reasoning_tokens":0},"prompt_cache_hit_tokens":0,)"
    R"("prompt_cache_miss_tokens":3})";

TEST_F(GenerateTest, AWholeAnswer) {
  start(three_ids);
  const HttpReply reply = ask_for();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("x-request-id"), "r1");
  EXPECT_EQ(std::regex_replace(reply.body, std::regex("\"created\":[0-9]+"), "\"created\":0"),
            R"({"request_id":"r1","model":"scripted","created":0,"choices":[{"index":0,)"
            R"("token_ids":[11,12,13],"logprobs":null,"finish_reason":"stop","stop_reason":null,)"
            R"("seed":7}],)" +
                std::string(kUsage) + R"(,"prompt_logprobs":null,"kv_transfer_params":null})");
  EXPECT_THAT(ask_for(with_params("\"n\":2")).body,
              HasSubstr(R"({"index":1,"token_ids":[11,12,13],"logprobs":null,)"
                        R"("finish_reason":"stop","stop_reason":null,"seed":8})"));
}

TEST_F(GenerateTest, AStream) {
  start(three_ids);
  const HttpReply reply = ask_for(R"(,"stream":true,"stream_options":{"include_usage":true})");
  EXPECT_EQ(reply.header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_THAT(
      reply.events(),
      ElementsAre(R"({"request_id":"r1","choices":[{"index":0,"token_ids":[11,12],"logprobs":null,)"
                  R"("finish_reason":null}],"usage":null})",
                  R"({"request_id":"r1","choices":[{"index":0,"token_ids":[13],"logprobs":null,)"
                  R"("finish_reason":"stop","stop_reason":null,"seed":7}],"usage":null})",
                  R"({"request_id":"r1","choices":[],)" + std::string(kUsage) + "}", "[DONE]"));
}

TEST_F(GenerateTest, EachTokenHasItsLogprob) {
  start(three_ids);
  const auto entry = [](const std::string& id) {
    const std::string token = R"({"token":"token_id:)" + id +
                              R"(","logprob":-0.5,"bytes":[60,49,)" + std::to_string(int{id[1]}) +
                              ",62]";
    return token + ",\"top_logprobs\":[" + token + "}]}";
  };
  const std::string first = entry("11") + "," + entry("12");
  EXPECT_THAT(ask_for(with_params("\"logprobs\":1")).body,
              HasSubstr(R"("logprobs":{"content":[)" + first + "," + entry("13") + "]}"));
  const HttpReply stream = ask_for(R"(,"stream":true)" + with_params("\"logprobs\":1"));
  EXPECT_THAT(stream.body, HasSubstr(R"("logprobs":{"content":[)" + first + "]}"));
  EXPECT_THAT(stream.body, HasSubstr(R"("logprobs":{"content":[)" + entry("13") + "]}"));
}

TEST_F(GenerateTest, ThePromptHasLogprobs) {
  start([](const Request& request) {
    Script script = three_ids(request);
    script.steps.front().event.prompt_logprobs = {{-0.5F, 1, {{2, -0.5F}}},
                                                  {-1.5F, 2, {{9, -1.0F}}}};
    return script;
  });
  EXPECT_THAT(ask_for(with_params("\"prompt_logprobs\":1")).body,
              HasSubstr(R"("prompt_logprobs":[null,{"2":{"logprob":-0.5,"rank":1,)"
                        R"("decoded_token":"<2>"}},{"3":{"logprob":-1.5,"rank":2,)"
                        R"("decoded_token":"<3>"},"9":{"logprob":-1,"rank":1,)"
                        R"("decoded_token":"<9>"}}])"));
}

TEST_F(GenerateTest, Failures) {
  start([](const Request& request) {
    Script script = broken(request);
    if (request.n == 2)
      script.refusal = Error{ErrorCode::kInvalidArgument, "bad_words: no", "bad_words"};
    return script;
  });
  HttpReply reply = ask_for(with_params("\"n\":2"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body, R"({"error":{"message":"sampling_params.bad_words: no","type":)"
                        R"("BadRequestError","param":"sampling_params.bad_words","code":400}})");
  EXPECT_EQ(ask_for().status, 500);
  reply = ask_for(R"(,"stream":true)");
  ASSERT_EQ(reply.events().size(), 3U);
  EXPECT_THAT(reply.events()[1], HasSubstr(R"("message":"broke")"));
  EXPECT_EQ(reply.events()[2], "[DONE]");
  EXPECT_EQ(ask(get("/inference/v1/generate")).status, 405);
}

}  // namespace
}  // namespace stoker
