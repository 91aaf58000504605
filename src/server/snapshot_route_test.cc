// The route that saves the engine: what it asks of it and answers, one at a time, beside streams,
// and given up when nobody waits any more.
#include "server/snapshot_route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "server/server_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kRootKey = "Authorization: Bearer root\r\n";

SavedSnapshot some_saved() {
  SavedSnapshot saved;
  saved.info.id = "0123456789abcdef0123456789abcdef";
  saved.info.model_name = "flash";
  saved.info.created = "2026-01-31T12:00:00Z";
  saved.info.num_bytes = 30;
  saved.info.parts = {{"prefix", "prefix-1", 10}, {"weights", "weights-2", 20}};
  saved.num_prefixes = 3;
  saved.num_prefix_tokens = 512;
  return saved;
}

class SaveRouteTest : public ServerTest {
 protected:
  void start_with(ScriptedEngine::Saver saver) {
    ServerOptions options;
    options.admin_api_keys = {*parse_api_key("root", "admin-1")};
    start(endless, options);
    engine_->set_saver(std::move(saver));
  }

  static std::string save_request(const std::string& body) {
    return post("/admin/snapshot", body, kRootKey);
  }
  HttpReply save(const std::string& body) { return ask(save_request(body)); }
};

TEST_F(SaveRouteTest, SavesWhatIsAskedFor) {
  std::vector<std::pair<std::string, int>> orders;
  start_with([&orders](const SaveSnapshot& what) -> Result<SavedSnapshot> {
    orders.emplace_back(what.name, what.max_prefixes);
    return some_saved();
  });
  const HttpReply reply = save(R"({"name":"flash","prefixes":256})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"id":"0123456789abcdef0123456789abcdef","model":"flash",)"
                        R"("created":"2026-01-31T12:00:00Z","bytes":30,"sections":[)"
                        R"({"name":"prefix","object":"prefix-1","bytes":10},)"
                        R"({"name":"weights","object":"weights-2","bytes":20}],)"
                        R"("prefixes":3,"prefix_tokens":512})");
  EXPECT_EQ(save("{}").status, 200);
  EXPECT_EQ(save(R"({"name":null,"prefixes":null})").status, 200);
  EXPECT_EQ(ask(post("/pause", "", kRootKey)).status, 200);
  EXPECT_EQ(save(R"({"prefixes":1})").status, 200) << "a pause stops requests alone";
  EXPECT_EQ(orders,
            (std::vector<std::pair<std::string, int>>{{"flash", 256}, {"", 0}, {"", 0}, {"", 1}}));
  EXPECT_EQ(
      log_lines("event=snapshot id=0123456789abcdef0123456789abcdef bytes=30 prefixes=3").size(),
      4U);
}

TEST_F(SaveRouteTest, RefusesOtherBodiesAndOtherKeys) {
  start_with([](const SaveSnapshot&) -> Result<SavedSnapshot> {
    ADD_FAILURE() << "nothing is to be saved";
    return some_saved();
  });
  const std::pair<const char*, const char*> rows[] = {
      {"", ""},
      {"{ ", ""},
      {"[]", "expected an object"},
      {R"({"name":1})", R"("param":"name")"},
      {R"({"prefixes":-1})", R"("param":"prefixes")"},
      {R"({"prefixes":257})", "prefixes: expected an integer from 0 to 256, found 257"},
      {R"({"prefixes":1.5})", R"("param":"prefixes")"},
      {R"({"prefixes":"1"})", R"("param":"prefixes")"},
      {R"({"nmae":"x"})", R"("param":"nmae")"}};
  for (const auto& [body, message] : rows) {
    const HttpReply reply = save(body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_THAT(reply.body, HasSubstr(message)) << body;
  }
  EXPECT_EQ(save(std::string(kMaxSnapshotBodyBytes + 1, ' ')).status, 413);
  EXPECT_EQ(ask(post("/admin/snapshot", "{}")).status, 401);
  EXPECT_EQ(ask(post("/admin/snapshot", "{}", "Authorization: Bearer other\r\n")).status, 401);
}

TEST_F(SaveRouteTest, WithoutAdministratorsThereIsNone) {
  start(hello);
  EXPECT_EQ(ask(post("/admin/snapshot", "{}")).status, 404);
}

TEST_F(SaveRouteTest, FailuresAreToldApart) {
  const struct {
    Error error;
    int status;
    const char* told;
  } rows[] = {
      {{ErrorCode::kCorruptData, "a chunk", ""}, 500, R"("type":"CorruptDataError")"},
      {{ErrorCode::kInternal, "token 3", "canary"}, 500, R"("param":"canary")"},
      {{ErrorCode::kOverloaded, "collects", ""}, 429, R"("type":"OverloadedError")"},
      {{ErrorCode::kResourceExhausted, "no room", ""}, 503, R"("type":"MemoryError")"},
      {{ErrorCode::kUnsupported, "no store", ""}, 400, R"("type":"NotImplementedError")"},
      {{ErrorCode::kCancelled, "ended", ""}, 503, R"("type":"CancelledError")"},
  };
  size_t row = 0;
  start_with([&](const SaveSnapshot&) -> Result<SavedSnapshot> { return rows[row].error; });
  for (; row < std::size(rows); ++row) {
    const HttpReply reply = save("{}");
    EXPECT_EQ(reply.status, rows[row].status) << rows[row].told;
    EXPECT_THAT(reply.body, HasSubstr(rows[row].told));
    EXPECT_THAT(reply.body, HasSubstr(rows[row].error.message));
  }
}

TEST_F(SaveRouteTest, OneAtATimeBesideStreams) {
  std::promise<void> begun, go_on;
  start_with([&, goes = go_on.get_future().share()](const SaveSnapshot&) -> Result<SavedSnapshot> {
    begun.set_value();
    goes.wait();
    return some_saved();
  });
  TestClient first(port());
  first.send(save_request("{}"));
  begun.get_future().wait();
  EXPECT_EQ(save("{}").status, 429);
  EXPECT_EQ(save("{}").header("retry-after"), "1");
  TestClient stream(port());
  stream.send(post("/v1/completions", R"({"prompt":"hi","stream":true})"));
  EXPECT_TRUE(stream.read_until("word"));
  go_on.set_value();
  const auto reply = first.read_reply();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 200);
}

// By the client; and by the end of the server, which waits for nobody.
TEST_F(SaveRouteTest, IsGivenUpWhenNobodyWaits) {
  std::atomic<int> num_begun{0}, num_given_up{0};
  start_with([&](const SaveSnapshot& what) -> Result<SavedSnapshot> {
    ++num_begun;
    while (!what.is_cancelled()) std::this_thread::sleep_for(1ms);
    ++num_given_up;
    return Error{ErrorCode::kCancelled, "given up", ""};
  });
  const auto wait_for = [](const std::atomic<int>& count, int value) {
    for (int i = 0; i < 10'000 && count < value; ++i) std::this_thread::sleep_for(1ms);
    return count == value;
  };
  {
    TestClient gone(port());
    gone.send(save_request("{}"));
    EXPECT_TRUE(wait_for(num_begun, 1));
  }
  EXPECT_TRUE(wait_for(num_given_up, 1));
  TestClient waits(port());
  waits.send(save_request("{}"));
  EXPECT_TRUE(wait_for(num_begun, 2));
  server_->stop(0ms);
  EXPECT_EQ(num_given_up, 2);
}

TEST_F(SaveRouteTest, AnEngineThatCannotSaysSo) {
  start_with({});
  const HttpReply reply = save("{}");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("expected an engine with weights in a store"));
}

}  // namespace
}  // namespace stoker
