#include "server/abort_route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/server_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

class AbortTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.admin_api_keys = {*parse_api_key("root", "admin-1")};
    start(endless, options);
  }

  HttpReply abort(const std::string& body) {
    return ask(post("/abort_requests", body, "Authorization: Bearer root\r\n"));
  }

  static std::string request_of(const std::string& path, const std::string& body,
                                const std::string& id) {
    return post(path, body, "X-Request-Id: " + id + "\r\n");
  }
};

const char* const kEndlessStream = R"({"prompt":"hi","stream":true})";

TEST_F(AbortTest, EndsThoseThatAreNamed) {
  TestClient named(port()), other(port());
  named.send(request_of("/v1/completions", kEndlessStream, "one"));
  other.send(request_of("/v1/completions", kEndlessStream, "two"));
  ASSERT_TRUE(named.read_until("word") && other.read_until("word"));
  const HttpReply reply = abort(R"({"request_ids":["cmpl-one","three","resp_two_"]})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"aborted":1})");
  const auto ended = named.read_reply();
  ASSERT_TRUE(ended.has_value());
  EXPECT_THAT(ended->body, HasSubstr(R"("message":"the request was aborted")"));
  EXPECT_THAT(ended->body, HasSubstr(R"("code":503)"));
  EXPECT_TRUE(named.is_closed_by_server());
  EXPECT_EQ(engine_->num_running(), 1);
  EXPECT_EQ(abort(R"({"request_ids":["one"]})").body, R"({"aborted":0})");
  EXPECT_EQ(abort(R"({"request_ids":["two","two"]})").body, R"({"aborted":1})");
  EXPECT_TRUE(other.read_until("aborted"));
}

TEST_F(AbortTest, KnowsAnIdInEachForm) {
  const struct {
    const char *path, *body, *prefix;
    int status = 503;
  } rows[] = {
      {"/v1/completions", R"({"prompt":"hi"})", "cmpl-"},
      {"/v1/completions", R"({"prompt":"hi"})", ""},
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"q"}]})", "chatcmpl-"},
      {"/v1/responses", R"({"input":"q"})", "resp_"},
      {"/v1/messages", R"({"max_tokens":9,"messages":[{"role":"user","content":"q"}]})", "msg_",
       529},
      {"/inference/v1/generate", R"({"token_ids":[1],"sampling_params":{}})", ""},
  };
  size_t num_requests = 0;
  for (const auto& row : rows) {
    // Its own id may begin like that of an answer.
    for (const std::string id : {"one", "cmpl-one"}) {
      TestClient client(port());
      client.send(request_of(row.path, row.body, id));
      ASSERT_TRUE(engine_->wait_for_requests(++num_requests)) << row.path;
      const std::string body = R"({"request_ids":[")" + (row.prefix + id) + "\"]}";
      for (int i = 0; i < 200 && abort(body).body != R"({"aborted":1})"; ++i) {
      }  // until the server's thread has it
      const auto reply = client.read_reply();
      ASSERT_TRUE(reply.has_value());
      EXPECT_EQ(reply->status, row.status) << row.path;
      EXPECT_EQ(reply->header("retry-after"), "10");
      EXPECT_THAT(reply->body, HasSubstr("the request was aborted"));
    }
  }
}

TEST_F(AbortTest, RefusesOtherBodies) {
  std::string many = R"({"request_ids":["a")";
  for (int i = 0; i < 1024; ++i) many += ",\"a\"";
  const std::string bodies[] = {
      "", "[]", "{}", R"({"request_ids":"a"})", R"({"request_ids":[1]})", "{ ", many + "]}"};
  for (const std::string& body : bodies) EXPECT_EQ(abort(body).status, 400) << body.substr(0, 50);
  EXPECT_EQ(abort(std::string(kMaxAbortBytes + 1, ' ')).status, 413);
  EXPECT_THAT(abort("{}").body, HasSubstr("request_ids: expected a list of up to 1024 ids"));
}

}  // namespace
}  // namespace stoker
