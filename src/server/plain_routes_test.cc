// Routes that the server answers by itself, keys, and what it says before there is an engine.
#include "server/plain_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/json.h"
#include "base/mapped_file.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string member(const HttpReply& reply, const char* name) {
  const auto body = Json::parse(reply.body);
  const Json* value = body ? body->find(name) : nullptr;
  if (value == nullptr) return "none in " + reply.body;
  return value->is_string() ? value->as_string() : value->dump();
}

constexpr const char* kGoodKey = "Authorization: Bearer first\r\n";
constexpr const char* kAdminKey = "Authorization: Bearer root1\r\n";

ServerOptions with_keys() {
  ServerOptions options;
  options.api_keys = {{"team-a", "first"}, {"team-b", "second"}};
  options.admin_api_keys = {{"admin-1", "root1"}};
  return options;
}

// ---- Before there is an engine

TEST_F(ServerTest, SaysHowFarTheStartIs) {
  listen(hello);
  HttpReply reply = ask(get("/health"));
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("the server is starting: starting"));
  server_->tell({"packing weights", 0.25, 1000});
  reply = ask(get("/ready"));
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(member(reply, "state"), "loading");
  EXPECT_EQ(member(reply, "phase"), "packing weights");
  EXPECT_EQ(member(reply, "progress"), "0.25");
  EXPECT_EQ(member(reply, "eta_s"), "null");
  for (const char* path : {"/health", "/ping", "/v1/models", "/v1/models/x"}) {
    reply = ask(get(path));
    EXPECT_EQ(reply.status, 503) << path;
    EXPECT_THAT(reply.body, HasSubstr("starting: packing weights, 25 %")) << path;
    EXPECT_EQ(reply.header("retry-after"), "1");
  }
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"})
    EXPECT_EQ(ask(post(path, "{}")).status, 503) << path;
  EXPECT_EQ(ask(get("/live")).status, 200);
  EXPECT_EQ(ask(get("/version")).status, 200);
  EXPECT_EQ(ask(get("/metrics")).status, 200);
  EXPECT_EQ(engine_->requests().size(), 0U);
  server_->attach(*engine_);
  EXPECT_TRUE(still_answers());
  reply = ask(get("/ready"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(member(reply, "state"), "ready");
}

TEST(StartPhase, ForetellsTheEndOfAPhase) {
  using std::chrono::seconds;
  const StartPhase::Clock::time_point begin{seconds(100)};
  StartPhase phase;
  EXPECT_EQ(phase.text(), "starting");
  phase.set({"reading", 0.2, 0}, begin);
  EXPECT_FALSE(phase.seconds_left(begin + seconds(3)).has_value());
  phase.set({"reading", 0.6, 0}, begin + seconds(8));
  EXPECT_EQ(phase.text(), "reading, 60 %");
  EXPECT_DOUBLE_EQ(phase.seconds_left(begin + seconds(8)).value_or(-1), 8);
  phase.set({"packing", 0, 0}, begin + seconds(9));
  EXPECT_FALSE(phase.seconds_left(begin + seconds(12)).has_value());
  EXPECT_EQ(phase.text(), "packing");
}

TEST_F(ServerTest, AnEngineThatStoppedIsNotReady) {
  start(hello);
  engine_->set_healthy(false);
  EXPECT_EQ(ask(get("/ready")).status, 503);
  EXPECT_EQ(member(ask(get("/ready")), "state"), "stopped");
  EXPECT_EQ(ask(get("/live")).status, 200);
}

TEST_F(ServerTest, ThePageIsThereUnlessItIsOff) {
  start(hello, with_keys());
  const HttpReply reply = ask(get("/"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(reply.body, ::testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(reply.body, HasSubstr("</html>"));
  for (const char* outside : {"http://", "https://", "src=", "@import"})
    EXPECT_THAT(reply.body, Not(HasSubstr(outside))) << "nothing comes from elsewhere";
  server_->stop(std::chrono::milliseconds(0));
  ServerOptions options;
  options.page = false;
  start(hello, options);
  EXPECT_EQ(ask(get("/")).status, 404);
}

// ---- Keys

TEST_F(ServerTest, EveryRouteAsksForTheRightKey) {
  start(hello, with_keys());
  struct Case {
    std::string request;  // without keys
    bool for_clients, for_admins;
  };
  const auto with = [](const Case& c, const std::string& headers) {
    const size_t at = c.request.find("\r\n") + 2;
    return c.request.substr(0, at) + headers + c.request.substr(at);
  };
  const std::string body = R"({"prompt":"hi"})";
  const Case cases[] = {
      {get("/"), false, false},
      {get("/health"), false, false},
      {get("/ping"), false, false},
      {get("/live"), false, false},
      {get("/ready"), false, false},
      {get("/version"), false, false},
      {get("/load"), false, false},
      {get("/metrics"), false, false},
      {get("/v1/models"), true, false},
      {get("/v1/models/scripted"), true, false},
      {post("/v1/completions", body), true, false},
      {post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"q"}]})"), true,
       false},
      {post("/v1/messages", R"({"max_tokens":1,"messages":[{"role":"user","content":"q"}]})"), true,
       false},
      {post("/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":"q"}]})"), true,
       false},
      {post("/tokenize", body), true, false},
      {post("/detokenize", R"({"tokens":[1]})"), true, false},
      {get("/server_info"), false, true},
      {post("/reset_prefix_cache", ""), false, true},
      {post("/pause", ""), false, true},
      {post("/resume", ""), false, true},
      {get("/is_paused"), false, true},
      {post("/sleep", ""), false, true},
      {post("/wake_up", ""), false, true},
      {get("/is_sleeping"), false, true},
      {post("/abort_requests", R"({"request_ids":[]})"), false, true},
  };
  for (const Case& c : cases) {
    const int without = c.for_clients || c.for_admins ? 401 : 200;
    EXPECT_EQ(ask(c.request).status, without) << c.request;
    EXPECT_EQ(ask(with(c, "Authorization: Bearer wrong\r\n")).status, without) << c.request;
    EXPECT_EQ(ask(with(c, kGoodKey)).status, c.for_admins ? 401 : 200) << c.request;
    EXPECT_EQ(ask(with(c, "X-Api-Key: second\r\n")).status, c.for_admins ? 401 : 200) << c.request;
    EXPECT_EQ(ask(with(c, kAdminKey)).status, c.for_clients ? 401 : 200) << c.request;
    // The last case of a pause must not stay.
    ask(with({post("/resume", ""), false, true}, kAdminKey));
    ask(with({post("/wake_up", ""), false, true}, kAdminKey));
  }
  const HttpReply refused = ask(get("/v1/models"));
  EXPECT_EQ(refused.header("www-authenticate"), "Bearer");
  EXPECT_THAT(refused.body, HasSubstr("AuthenticationError"));
  EXPECT_EQ(ask("OPTIONS /v1/models HTTP/1.1\r\n\r\n").status, 204);
  for (const std::string& line : log_lines("request")) {
    EXPECT_THAT(line, Not(HasSubstr("first "))) << "the key";
    EXPECT_THAT(line, Not(HasSubstr("wrong")));
    EXPECT_THAT(line, Not(HasSubstr("second")));
  }
  ASSERT_FALSE(log_lines("request").empty());
}

TEST_F(ServerTest, KeyIsReadInAnySpelling) {
  start(hello, with_keys());
  for (const char* line : {"Authorization: bearer first\r\n", "authorization: BEARER   first\r\n",
                           "x-api-key:first\r\n"})
    EXPECT_EQ(ask(get("/v1/models", line)).status, 200) << line;
  for (const char* line :
       {"Authorization: first\r\n", "Authorization: Basic first\r\n", "Authorization: Bearer\r\n",
        "Authorization: Bearer first second\r\n", "Authorization: Bearer FIRST\r\n"})
    EXPECT_EQ(ask(get("/v1/models", line)).status, 401) << line;
}

TEST_F(ServerTest, WithoutKeysThereAreNoRoutesForAdministrators) {
  start(hello);
  EXPECT_EQ(ask(get("/v1/models")).status, 200);
  EXPECT_EQ(ask(get("/server_info")).status, 404);
  EXPECT_EQ(ask(post("/pause", "", kAdminKey)).status, 404);
  EXPECT_TRUE(still_answers());
}

TEST_F(ServerTest, MetricsMayNeedAKey) {
  ServerOptions options = with_keys();
  options.metrics_need_key = true;
  start(hello, options);
  EXPECT_EQ(ask(get("/metrics")).status, 401);
  EXPECT_EQ(ask(get("/metrics", kGoodKey)).status, 200);
  EXPECT_EQ(ask(get("/metrics", kAdminKey)).status, 200);
}

TEST_F(ServerTest, AKeyHasALimitOfItsOwn) {
  ServerOptions options = with_keys();
  options.max_requests_per_key = 2;
  start(endless, options);
  const std::string stream = R"({"prompt":"hi","stream":true})";
  TestClient one(port()), two(port());
  one.send(post("/v1/completions", stream, kGoodKey));
  two.send(post("/v1/completions", stream, kGoodKey));
  ASSERT_TRUE(one.read_until("word") && two.read_until("word"));
  EXPECT_EQ(member(ask(get("/load")), "server_load"), "2");
  const HttpReply refused = ask(post("/v1/completions", stream, kGoodKey));
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr(R"(the key \"team-a\" has 2 requests under way)"));
  EXPECT_EQ(refused.header("retry-after"), "1");
  TestClient other(port());
  other.send(post("/v1/completions", stream, "x-api-key: second\r\n"));
  EXPECT_TRUE(other.read_until("word"));
  one.close();
  EXPECT_TRUE(engine_->wait_for_requests(3));
  TestClient again(port());
  for (int attempt = 0; attempt < 100; ++attempt) {  // until the server has seen it go
    if (ask(get("/load")).body == R"({"server_load":2})") break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  again.send(post("/v1/completions", stream, kGoodKey));
  EXPECT_TRUE(again.read_until("word"));
}

TEST_F(ServerTest, KeysMayBecomeOthers) {
  start(hello, with_keys());
  const auto status = [this](const char* key) { return ask(get("/v1/models", key)).status; };
  EXPECT_EQ(status(kGoodKey), 200);
  ASSERT_TRUE(server_->set_keys({{"team-c", "third"}}, {}));
  EXPECT_EQ(status(kGoodKey), 401);
  EXPECT_EQ(status("Authorization: Bearer third\r\n"), 200);
  EXPECT_EQ(ask(get("/is_paused", kAdminKey)).status, 404) << "no administrators, no such route";
  EXPECT_THAT(ask(get("/openapi.json")).body, Not(HasSubstr("/is_paused")));
  const auto opened = server_->set_keys({}, {{"admin-1", "root1"}});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("since there were some"));
  EXPECT_EQ(status("Authorization: Bearer third\r\n"), 200);
  EXPECT_EQ(ask(get("/is_paused", kAdminKey)).status, 404) << "refused as a whole";
  ASSERT_TRUE(server_->set_keys({{"team-c", "third"}}, {{"admin-1", "root1"}}));
  EXPECT_EQ(ask(get("/is_paused", kAdminKey)).status, 200);
  server_->log_state();
  EXPECT_EQ(status(kGoodKey), 401);
  EXPECT_EQ(log_lines("event=server connections=").size(), 1U);
  EXPECT_EQ(log_lines("event=engine running=").size(), 1U);
}

// ---- Switches

TEST_F(ServerTest, ProfilesAreFilesOfTheirFolder) {
  std::string folder = ::testing::TempDir() + "profiles-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ServerOptions options = with_keys();
  options.profile_folder = folder;
  start(hello, options);
  EXPECT_EQ(ask(post("/start_profile", "")).status, 401);
  EXPECT_EQ(ask(post("/stop_profile", "", kAdminKey)).status, 400) << "none was started";
  EXPECT_EQ(ask(post("/start_profile", "", kAdminKey)).status, 200);
  EXPECT_EQ(ask(post("/start_profile", "", kAdminKey)).status, 400) << "one is under way";
  const HttpReply reply = ask(post("/stop_profile", "", kAdminKey));
  EXPECT_EQ(reply.status, 200);
  const std::string file = member(reply, "file");
  EXPECT_EQ(file.rfind(folder + "/steps-", 0), 0U) << file;
  for (int i = 0; i < 500 && log_lines("event=profile file=").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(*read_file(file, 100), "{}");
  ASSERT_EQ(chmod(folder.c_str(), 0500), 0);
  const int status = ask(post("/start_profile", "", kAdminKey)).status;
  EXPECT_EQ(status, access(folder.c_str(), W_OK) == 0 ? 200 : 500) << "root may write anywhere";
  std::filesystem::remove_all(folder);
}

TEST_F(ServerTest, WithoutAFolderThereAreNoProfiles) {
  start(hello, with_keys());
  const HttpReply reply = ask(post("/start_profile", "", kAdminKey));
  EXPECT_EQ(reply.status, 404);
  EXPECT_THAT(reply.body, HasSubstr("without --profile-dir"));
  ServerOptions options;
  options.port = 0;
  options.profile_folder = "/nowhere/at/all";
  const auto server = Server::start(std::move(options));
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ErrorCode::kNotFound);
}

TEST_F(ServerTest, SleepingServerRefusesAndWakesUp) {
  start(endless, with_keys());
  TestClient running(port());
  running.send(post("/v1/completions", R"({"prompt":"hi","stream":true})", kGoodKey));
  ASSERT_TRUE(running.read_until("word"));
  const auto admin = [this](const char* path) { return ask(post(path, "", kAdminKey)); };
  const auto is_sleeping = [this] {
    return member(ask(get("/is_sleeping", kAdminKey)), "is_sleeping");
  };
  EXPECT_EQ(is_sleeping(), "false");
  for (const char* wrong : {"/sleep?level=3", "/sleep?level=", "/sleep?level=-1", "/sleep?level=1x",
                            "/sleep?mode=keep", "/sleep?level=2", "/wake_up?tags=all"})
    EXPECT_EQ(admin(wrong).status, 400) << wrong;
  EXPECT_EQ(is_sleeping(), "false");
  EXPECT_EQ(admin("/sleep").status, 200);
  EXPECT_EQ(is_sleeping(), "true");
  EXPECT_EQ(engine_->stats().sleep_level, 1);
  EXPECT_EQ(engine_->num_running(), 1) << "what runs is waited for";
  const HttpReply refused = ask(post("/v1/completions", R"({"prompt":"hi"})", kGoodKey));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("the server sleeps"));
  EXPECT_EQ(member(ask(get("/ready")), "state"), "sleeping");
  EXPECT_EQ(ask(get("/health")).status, 200);
  EXPECT_THAT(ask(get("/metrics")).body,
              HasSubstr(R"(sleep_state="weights_offloaded",model_name="scripted",engine="0"} 1)"));
  EXPECT_EQ(admin("/resume").status, 200);
  EXPECT_EQ(admin("/wake_up?tags=weights").status, 200);
  EXPECT_EQ(is_sleeping(), "true") << "neither takes the other back";
  EXPECT_EQ(admin("/sleep?level=0&mode=abort").status, 200);
  EXPECT_EQ(engine_->num_running(), 0);
  EXPECT_EQ(admin("/wake_up?tags=kv_cache").status, 200);
  EXPECT_EQ(is_sleeping(), "false");
  TestClient more(port());
  more.send(post("/v1/completions", R"({"prompt":"hi","stream":true})", kGoodKey));
  EXPECT_TRUE(more.read_until("word"));
}

TEST_F(ServerTest, PausedServerRefusesAndGoesOn) {
  start(endless, with_keys());
  TestClient running(port());
  running.send(post("/v1/completions", R"({"prompt":"hi","stream":true})", kGoodKey));
  ASSERT_TRUE(running.read_until("word"));
  EXPECT_EQ(ask(post("/pause", "", kAdminKey)).status, 200);
  EXPECT_EQ(member(ask(get("/is_paused", kAdminKey)), "is_paused"), "true");
  const HttpReply refused = ask(post("/v1/completions", R"({"prompt":"hi"})", kGoodKey));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("the server is paused"));
  EXPECT_EQ(refused.header("retry-after"), "10");
  EXPECT_EQ(member(ask(get("/ready")), "state"), "paused");
  EXPECT_EQ(ask(get("/health")).status, 200);
  EXPECT_EQ(engine_->num_running(), 1);
  EXPECT_EQ(ask(post("/resume", "", kAdminKey)).status, 200);
  EXPECT_EQ(member(ask(get("/is_paused", kAdminKey)), "is_paused"), "false");
  TestClient more(port());
  more.send(post("/v1/completions", R"({"prompt":"hi","stream":true})", kGoodKey));
  EXPECT_TRUE(more.read_until("word"));
}

// ---- Texts to tokens

TEST_F(ServerTest, TokenizerIsToldIfThatIsOn) {
  start(hello);
  EXPECT_EQ(ask(get("/tokenizer_info")).status, 404);
  server_->stop(std::chrono::milliseconds(0));
  ServerOptions options;
  options.tokenizer_info = true;
  start(hello, options);
  EXPECT_EQ(ask(get("/tokenizer_info")).body,
            R"({"tokenizer_class":"stoker","bos_token":"<0>","eos_token":"<1>",)"
            R"("add_bos_token":false,"model_max_length":4096,"chat_template":null})");
}

TEST_F(ServerTest, TokenizesAsRequestsAreRead) {
  start(hello);
  EXPECT_EQ(ask(post("/tokenize", R"({"prompt":"hi","model":"scripted"})")).body,
            R"({"count":3,"max_model_len":4096,"tokens":[1,2,3],"token_strs":null})");
  EXPECT_EQ(
      ask(post("/tokenize", R"({"messages":[{"role":"user","content":"q"}],)"
                            R"("return_token_strs":true})"))
          .body,
      R"({"count":3,"max_model_len":4096,"tokens":[1,2,3],"token_strs":["<1>","<2>","<3>"]})");
  EXPECT_EQ(ask(post("/detokenize", R"({"tokens":[5,6]})")).body, R"({"prompt":"<5><6>"})");
  struct Case {
    const char* path;
    const char* body;
    int status;
    const char* param;
  };
  const Case cases[] = {
      {"/tokenize", R"({})", 400, R"("param":"prompt")"},
      {"/tokenize", R"({"prompt":["a","b"]})", 400, R"("param":"prompt")"},
      {"/tokenize", R"({"prompt":"a","return_token_strs":1})", 400,
       R"("param":"return_token_strs")"},
      {"/tokenize", R"({"prompt":"a","model":"other"})", 404, R"("param":"model")"},
      {"/tokenize", R"([])", 400, "the body: expected a JSON object"},
      {"/detokenize", R"({})", 400, R"("param":"tokens")"},
      {"/detokenize", R"({"tokens":[-1]})", 400, R"("param":"tokens")"},
      {"/detokenize", R"({"tokens":[1.5]})", 400, R"("param":"tokens")"},
      {"/detokenize", R"({"tokens":[99999999]})", 400, R"("param":"tokens")"},
      {"/detokenize", R"({"tokens":"x"})", 400, R"("param":"tokens")"},
      {"/detokenize", R"({"tokens":[1],"model":7})", 400, R"("param":"model")"},
      {"/detokenize", R"(3)", 400, "the body: expected a JSON object"},
  };
  for (const Case& c : cases) {
    const HttpReply reply = ask(post(c.path, c.body));
    EXPECT_EQ(reply.status, c.status) << c.body;
    EXPECT_THAT(reply.body, HasSubstr(c.param)) << c.body;
  }
  EXPECT_EQ(engine_->requests().size(), 0U);
}

}  // namespace
}  // namespace stoker
