#include "server/cors.h"

#include <gtest/gtest.h>

#include "server/server_fixture.h"

namespace stoker {
namespace {

HttpRequest request_from(const std::string& origin, const std::string& method = "POST") {
  HttpRequest request;
  request.method = method;
  request.origin = origin;
  request.wanted_headers = "authorization, x-mine";
  return request;
}

TEST(Cors, AllOriginsByDefault) {
  for (const char* origin : {"", "https://a.example"})
    EXPECT_EQ(cors_lines({}, request_from(origin), "POST, OPTIONS"),
              "Access-Control-Allow-Origin: *\r\n");
  EXPECT_EQ(cors_lines({}, request_from("https://a.example", "OPTIONS"), "POST, OPTIONS"),
            "Access-Control-Allow-Origin: *\r\n"
            "Access-Control-Allow-Methods: POST, OPTIONS\r\n"
            "Access-Control-Allow-Headers: Authorization, *\r\n");
}

TEST(Cors, ListedOriginsAlone) {
  CorsRules rules;
  rules.origins = {"https://a.example", "http://localhost:3000"};
  rules.methods = {"GET", "POST"};
  rules.headers = {"Authorization", "Content-Type"};
  EXPECT_EQ(cors_lines(rules, request_from("http://localhost:3000"), "POST, OPTIONS"),
            "Vary: Origin\r\nAccess-Control-Allow-Origin: http://localhost:3000\r\n");
  EXPECT_EQ(cors_lines(rules, request_from("https://a.example", "OPTIONS"), "POST, OPTIONS"),
            "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n"
            "Access-Control-Allow-Methods: GET, POST\r\n"
            "Access-Control-Allow-Headers: Authorization, Content-Type\r\n");
  for (const char* origin : {"", "null", "*", "https://a.example:443", "http://a.example",
                             "https://b.example", "https://a.example.b"}) {
    for (const char* method : {"POST", "OPTIONS"})
      EXPECT_EQ(cors_lines(rules, request_from(origin, method), "POST, OPTIONS"),
                "Vary: Origin\r\n")
          << origin;
  }
  rules.origins.clear();
  EXPECT_EQ(cors_lines(rules, request_from("https://a.example"), "POST"), "Vary: Origin\r\n");
}

// A browser refuses "*" where it sends credentials.
TEST(Cors, CredentialsNameWhatIsAllowed) {
  CorsRules rules;
  rules.has_credentials = true;
  EXPECT_EQ(cors_lines(rules, request_from("https://a.example", "OPTIONS"), "POST, OPTIONS"),
            "Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n"
            "Access-Control-Allow-Credentials: true\r\n"
            "Access-Control-Allow-Methods: POST, OPTIONS\r\n"
            "Access-Control-Allow-Headers: authorization, x-mine\r\n");
  rules.origins = {"https://b.example"};
  EXPECT_EQ(cors_lines(rules, request_from("https://a.example"), "POST"), "Vary: Origin\r\n");
}

TEST(Cors, ListsOfOptions) {
  const auto items = parse_cors_list({R"(["https://a.example","*"])", "https://b.example", "[]"});
  ASSERT_TRUE(items.has_value());
  EXPECT_EQ(*items, (std::vector<std::string>{"https://a.example", "*", "https://b.example"}));
  EXPECT_TRUE(parse_cors_list({})->empty());
  for (const char* text :
       {"", "a b", "a,b", "a\r\nX: y", "[", "[1]", "[[\"a\"]]", R"(["a\u000a"])", R"(["\u00e9"])"})
    EXPECT_FALSE(parse_cors_list({text}).has_value()) << text;
}

TEST_F(ServerTest, CorsIsInEveryAnswer) {
  ServerOptions options;
  options.cors.origins = {"https://a.example"};
  start(hello, options);
  const std::string listed = "Origin: https://a.example\r\n";
  const std::string other = "Origin: https://b.example\r\n";
  for (const char* body : {R"({"prompt":"hi"})", R"({"prompt":"hi","stream":true})", "{}"}) {
    HttpReply reply = ask(post("/v1/completions", body, listed));
    EXPECT_EQ(reply.header("access-control-allow-origin"), "https://a.example") << body;
    EXPECT_EQ(reply.header("vary"), "Origin") << body;
    reply = ask(post("/v1/completions", body, other));
    EXPECT_EQ(reply.header("access-control-allow-origin"), "") << body;
  }
  const std::string preflight = "OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\n";
  EXPECT_EQ(ask(preflight + listed + "\r\n").header("access-control-allow-methods"),
            "GET, HEAD, OPTIONS");
  const HttpReply refused = ask(preflight + other + "\r\n");
  EXPECT_EQ(refused.status, 204);
  EXPECT_EQ(refused.header("access-control-allow-methods"), "");
  EXPECT_EQ(refused.header("allow"), "GET, HEAD, OPTIONS");
}

}  // namespace
}  // namespace stoker
