#include "server/batch_line.h"

#include <gmock/gmock.h>

namespace stoker {
namespace {

using ::testing::HasSubstr;

std::string line_of(const std::string& members) {
  return R"({"custom_id":"a",)" + members + "}";
}

TEST(BatchLine, RequestsOfBothRoutes) {
  const BatchLine chat = parse_batch_line(
      R"( {"custom_id":"c é","method":"POST","url":"/v1/chat/completions","body":{"x":1}} )"
      "\r");
  ASSERT_TRUE(chat.custom_id && !chat.error);
  EXPECT_EQ(*chat.custom_id, "c é");
  EXPECT_EQ(chat.route, Route::kChat);
  EXPECT_EQ(chat.body().dump(), R"({"x":1})");
  const BatchLine text = parse_batch_line(
      line_of(R"("method":"POST","url":"/v1/completions","body":{},"unknown":[1])"));
  ASSERT_TRUE(text.custom_id && !text.error);
  EXPECT_EQ(text.route, Route::kCompletions);
}

TEST(BatchLine, WithoutCustomId) {
  const std::pair<const char*, const char*> kCases[] = {
      {"nonsense", "not JSON at byte"},
      {R"({"custom_id":"a")", "not JSON at byte"},
      {"{} {}", "not JSON at byte"},
      {"\"\xff\"", "UTF-8"},
      {"[]", "expected a JSON object, found an array"},
      {"{}", "custom_id: expected a string, found none"},
      {R"({"custom_id":null})", "custom_id: expected a string, found null"},
      {R"({"custom_id":7})", "custom_id: expected a string, found a number"},
      {R"({"custom_id":""})", "custom_id: expected a string, found an empty one"},
  };
  for (const auto& [text, message] : kCases) {
    const BatchLine line = parse_batch_line(text);
    EXPECT_FALSE(line.custom_id) << text;
    ASSERT_TRUE(line.error) << text;
    EXPECT_THAT(line.error->message, HasSubstr(message)) << text;
  }
}

TEST(BatchLine, RefusalsHaveTheStatusOfTheServer) {
  struct Case {
    const char* members;
    int status;
    const char* message;
  };
  const Case kCases[] = {
      {R"("url":"/v1/completions","body":{})", 400, "method: expected \"POST\", found none"},
      {R"("method":1,"url":"/v1/completions","body":{})", 400, "found a number"},
      {R"("method":"GET","url":"/v1/completions","body":{})", 405, "found GET"},
      {R"("method":"post","url":"/v1/completions","body":{})", 405, "found post"},
      {R"("method":"OPTIONS","url":"/v1/completions","body":{})", 404, "found OPTIONS of"},
      {R"("method":"POST","body":{})", 400, "url: expected"},
      {R"("method":"POST","url":"/v1/embeddings","body":{})", 404, "does not support the task"},
      {R"("method":"POST","url":"/v1/nothing","body":{})", 404, "there is no /v1/nothing"},
      {R"("method":"POST","url":"/v1/models","body":{})", 405, "found POST"},
      {R"("method":"GET","url":"/v1/models","body":{})", 404, "found GET of /v1/models"},
      {R"("method":"POST","url":"/v1/messages","body":{})", 404, "found POST of /v1/messages"},
      {R"("method":"POST","url":"/v1/completions")", 400, "body: expected an object, found none"},
      {R"("method":"POST","url":"/v1/completions","body":[])", 400, "found an array"},
  };
  for (const Case& each : kCases) {
    const BatchLine line = parse_batch_line(line_of(each.members));
    EXPECT_TRUE(line.custom_id) << each.members;
    ASSERT_TRUE(line.error) << each.members;
    EXPECT_EQ(line.error->status, each.status) << each.members;
    EXPECT_THAT(line.error->message, HasSubstr(each.message)) << each.members;
  }
}

// A body may be as deep as one over HTTP.
TEST(BatchLine, Depth) {
  const auto nested = [](int depth) {
    const auto n = static_cast<size_t>(depth - 1);
    return R"("method":"POST","url":"/v1/completions","body":{"x":)" + std::string(n, '[') +
           std::string(n, ']') + "}";
  };
  EXPECT_FALSE(parse_batch_line(line_of(nested(128))).error);
  EXPECT_TRUE(parse_batch_line(line_of(nested(129))).error);
}

// Written down once: another function would give other answers to the same files.
TEST(BatchSeed, FixedValues) {
  EXPECT_EQ(batch_seed("", 0), 3206445717737214u);
  EXPECT_EQ(batch_seed("a", 0), 3038795553006433u);
  EXPECT_EQ(batch_seed("a", 1), 1061202383244167u);
  EXPECT_EQ(batch_seed("request-1", 0), 5433074449156744u);
  EXPECT_EQ(batch_seed("request-2", 0xffffffffffffffff), 184963726630840u);
}

TEST(BatchSeed, IsBelow2To53) {
  uint64_t all = 0;
  for (int i = 0; i < 1000; ++i) all |= batch_seed(std::to_string(i), 3);
  EXPECT_EQ(all, (uint64_t{1} << 53) - 1);
}

TEST(BatchOutputLine, WhatIsWrittenIsReadAgain) {
  using Kind = BatchOutputLine::Kind;
  const std::string answer = response_line("1f", {"a \"b\"\n", "r1", 200, R"({"x":1})"});
  EXPECT_EQ(answer, R"({"id":"batch_req_1f","custom_id":"a \"b\"\n","response":{"status_code":200,)"
                    R"("request_id":"r1","body":{"x":1}},"error":null})"
                    "\n");
  EXPECT_EQ(parse_output_line(answer).kind, Kind::kFinished);
  EXPECT_EQ(parse_output_line(answer).custom_id, "a \"b\"\n");
  for (const int status : {200, 400, 404, 405, 413}) {
    EXPECT_EQ(parse_output_line(response_line("1", {"a", "r", status, "{}"})).kind, Kind::kFinished)
        << status;
  }
  for (const int status : {429, 500, 503, 504}) {
    EXPECT_EQ(parse_output_line(response_line("1", {"a", "r", status, "{}"})).kind, Kind::kAgain)
        << status;
  }
  const std::string without = error_line("1", {{}, "invalid_line", "line 3: no"});
  EXPECT_EQ(without, R"({"id":"batch_req_1","custom_id":null,"response":null,)"
                     R"("error":{"code":"invalid_line","message":"line 3: no"}})"
                     "\n");
  EXPECT_EQ(parse_output_line(without).kind, Kind::kAgain);
  EXPECT_EQ(parse_output_line(error_line("1", {"a", "duplicate_custom_id", ""})).kind,
            Kind::kAgain);
}

TEST(BatchOutputLine, ForeignLines) {
  for (const char* text :
       {"", "text", "{}", "[]", R"({"custom_id":"a","method":"POST","url":"/x","body":{}})",
        R"({"custom_id":"a","response":{},"error":null})",
        R"({"custom_id":7,"response":{"status_code":200},"error":null})",
        R"({"custom_id":"a","response":null,"error":null})",
        R"({"id":"batch_req_1","custom_id":"a","response":{"status_c)"}) {
    EXPECT_EQ(parse_output_line(text).kind, BatchOutputLine::Kind::kForeign) << text;
  }
}

TEST(BatchOutputLine, CutLines) {
  const std::string line = response_line("1", {"a", "r", 200, "{}"});
  for (size_t n = 0; n < line.size(); ++n) EXPECT_TRUE(is_cut_output_line(line.substr(0, n))) << n;
  EXPECT_TRUE(is_cut_output_line(std::string(7, '\0')));
  EXPECT_TRUE(is_cut_output_line(line.substr(0, 30) + std::string(7, '\0')));
  EXPECT_FALSE(is_cut_output_line("# A text\n"));
  EXPECT_FALSE(is_cut_output_line(R"({"custom_id":"a")"));
}

}  // namespace
}  // namespace stoker
