// /v1/files and /v1/batches over HTTP: what goes over the wire, who may see what, and uploads that
// are too large, cut, or wrong.
#include "server/storage_routes.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <regex>
#include <thread>

#include "base/json.h"
#include "server/batch_fixture.h"
#include "server/http_query.h"
#include "server/server_fixture.h"

namespace stoker {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using ::testing::HasSubstr;

const char* const kLine =
    R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x"}})"
    "\n";
const char* const kFormHead = "Content-Type: multipart/form-data; boundary=XX\r\n";

std::string form(const std::string& content, const std::string& purpose = "batch") {
  return "--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" + purpose +
         "\r\n--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n"
         "Content-Type: application/octet-stream\r\n\r\n" +
         content + "\r\n--XX--\r\n";
}

std::string upload_head(const std::string& framing, const std::string& headers = "") {
  return "POST /v1/files HTTP/1.1\r\nHost: x\r\n" + std::string(kFormHead) + headers + framing +
         "\r\n\r\n";
}

std::string upload_of(const std::string& body, const std::string& headers = "") {
  return upload_head("Content-Length: " + std::to_string(body.size()), headers) + body;
}

std::string with_method(const char* method, const std::string& path,
                        const std::string& headers = "") {
  return std::string(method) + " " + path + " HTTP/1.1\r\nHost: x\r\n" + headers +
         "Content-Length: 0\r\n\r\n";
}

// Ids and times are another each time.
std::string masked_ids(const std::string& text) {
  const std::string ids = std::regex_replace(text, std::regex("[0-9a-f]{32}"), "ID");
  return std::regex_replace(ids, std::regex(R"(("[a-z_]*_at":|"created":)[0-9]+)"), "$1TIME");
}

std::string string_member(const HttpReply& reply, const char* name) {
  const auto json = Json::parse(reply.body);
  const Json* value = json ? json->find(name) : nullptr;
  return value == nullptr ? "" : value->as_string();
}

class StorageTest : public ServerTest {
 protected:
  StorageTest() {
    std::string name = testing::TempDir() + "stoker_storage_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~StorageTest() override { std::filesystem::remove_all(folder_); }

  ServerOptions with_storage() const {
    ServerOptions options;
    options.batch_folder = folder_ / "state";
    return options;
  }

  std::string upload(const std::string& content, const std::string& headers = "") {
    const HttpReply reply = ask(upload_of(form(content), headers));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return string_member(reply, "id");
  }

  HttpReply wait_for(const std::string& batch_id, const std::string& status,
                     const std::string& headers = "") {
    for (int i = 0; i < 2000; ++i) {
      HttpReply reply = ask(get("/v1/batches/" + batch_id, headers));
      if (string_member(reply, "status") == status) return reply;
      std::this_thread::sleep_for(5ms);
    }
    ADD_FAILURE() << "the batch does not become " << status;
    return {};
  }

  // Files that the server keeps, but for its lock.
  size_t num_kept() const {
    const std::filesystem::directory_iterator files(folder_ / "state");
    return static_cast<size_t>(std::distance(begin(files), end(files))) - 1;
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(StorageTest, WithoutAFolderThereAreNoRoutes) {
  start(hello);
  for (const char* path : {"/v1/files", "/v1/files/x", "/v1/files/x/content", "/v1/batches"}) {
    const HttpReply reply = ask(get(path));
    EXPECT_EQ(reply.status, 404);
    EXPECT_THAT(reply.body, HasSubstr("without --batch-dir"));
  }
  EXPECT_EQ(ask(upload_of(form("x"))).status, 404);
  EXPECT_EQ(ask(with_method("OPTIONS", "/v1/files")).status, 204);
}

TEST_F(StorageTest, ABatchOverTheWire) {
  start(hello, with_storage());
  HttpReply reply = ask(upload_of(form(kLine)));
  EXPECT_EQ(
      masked_ids(reply.body),
      R"({"id":"file-ID","object":"file","bytes":80,"created_at":TIME,"expires_at":null,)"
      R"("filename":"in.jsonl","purpose":"batch","status":"processed","status_details":null})");
  EXPECT_EQ(reply.header("content-type"), "application/json");
  const std::string file_id = string_member(reply, "id");
  reply = ask(post("/v1/batches", R"({"input_file_id":")" + file_id +
                                      R"(","endpoint":"/v1/completions","completion_window":"24h",)"
                                      R"("metadata":{"k":"v"}})"));
  EXPECT_EQ(reply.status, 200);
  const std::string rest =
      R"("expires_at":TIME,"expired_at":null,"request_counts":{"total":0,"completed":0,"failed":0},)"
      R"("metadata":{"k":"v"}})";
  EXPECT_EQ(masked_ids(reply.body),
            R"({"id":"batch_ID","object":"batch","endpoint":"/v1/completions","errors":null,)"
            R"("input_file_id":"file-ID","completion_window":"24h","status":"validating",)"
            R"("output_file_id":null,"error_file_id":null,"created_at":TIME,"in_progress_at":null,)"
            R"("finalizing_at":null,"completed_at":null,"failed_at":null,"cancelling_at":null,)"
            R"("cancelled_at":null,)" +
                rest);
  const std::string batch_id = string_member(reply, "id");
  reply = wait_for(batch_id, "completed");
  EXPECT_THAT(reply.body, HasSubstr(R"("request_counts":{"total":1,"completed":1,"failed":0})"));
  EXPECT_THAT(masked_ids(reply.body),
              HasSubstr(R"("output_file_id":"file-ID","error_file_id":null)"));
  const std::string output_id = string_member(reply, "output_file_id");
  reply = ask(get("/v1/files/" + output_id + "/content"));
  EXPECT_EQ(reply.header("content-type"), "application/jsonl");
  EXPECT_THAT(reply.body, HasSubstr(R"("custom_id":"a","response":{"status_code":200)"));
  reply = ask(get("/v1/files?purpose=batch_output"));
  EXPECT_EQ(masked_ids(reply.body).substr(0, 50),
            R"({"object":"list","data":[{"id":"file-ID","object":)");
  EXPECT_THAT(masked_ids(reply.body),
              testing::EndsWith(R"(],"first_id":"file-ID","last_id":"file-ID","has_more":false})"));
  reply = ask(with_method("DELETE", "/v1/files/" + output_id));
  EXPECT_EQ(masked_ids(reply.body), R"({"id":"file-ID","object":"file","deleted":true})");
  EXPECT_EQ(ask(get("/v1/files/" + output_id)).status, 404);
  EXPECT_EQ(ask(get("/v1/files/" + file_id)).status, 200);
}

TEST_F(StorageTest, LargeFilesGoBothWaysInPieces) {
  start(hello, with_storage());
  std::string content;
  for (int i = 0; content.size() < (size_t{5} << 20); ++i) content += std::to_string(i) + "\r\n--X";
  const std::string id = upload(content);
  const std::string path = "/v1/files/" + id + "/content";
  EXPECT_EQ(ask(get(path)).body, content);
  TestClient client(port());  // a slow reader; then the connection goes on
  client.send(get(path));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(client.read_reply()->body, content);
  client.send(with_method("HEAD", path));
  auto reply = client.read_reply(20s, false);
  EXPECT_EQ(reply->header("content-length"), std::to_string(content.size()));
  client.send(get(path) + get("/live"));
  EXPECT_EQ(client.read_reply()->body.size(), content.size());
  EXPECT_EQ(client.read_reply()->status, 200);
  const std::string empty = upload("");
  const HttpReply nothing = ask(get("/v1/files/" + empty + "/content"));
  EXPECT_EQ(nothing.header("content-length"), "0");
  EXPECT_EQ(nothing.header("content-type"), "application/jsonl");
}

TEST_F(StorageTest, UploadsInChunks) {
  start(hello, with_storage());
  const std::string content(3 << 20, 'x');
  const std::string body = form(content);
  TestClient client(port());
  client.send(upload_head("Transfer-Encoding: chunked"));
  char size[20];
  for (size_t at = 0; at < body.size(); at += 100'000) {
    const std::string piece = body.substr(at, 100'000);
    std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
    client.send(size + piece + "\r\n");
  }
  client.send("0\r\n\r\n" + get("/live"));
  const auto reply = client.read_reply();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(string_member(*reply, "bytes"), std::to_string(content.size()));
  EXPECT_EQ(client.read_reply()->status, 200);
}

TEST_F(StorageTest, WrongUploads) {
  ServerOptions options = with_storage();
  options.max_batch_file_bytes = 1 << 20;
  options.max_batch_files = 1;
  start(hello, options);
  const std::string large(2 << 20, 'x');
  const auto told = [this](const std::string& request) {
    const HttpReply reply = ask(request);
    return std::to_string(reply.status) + " " + reply.body;
  };
  EXPECT_THAT(told(upload_of(form(large))), HasSubstr("413 "));
  EXPECT_THAT(told(upload_head("Content-Length: 99999999999")), HasSubstr("longer than 1048576"));
  EXPECT_THAT(told(upload_of(form("x", "fine-tune"))), HasSubstr("400 "));
  EXPECT_THAT(told(upload_of("--XX--")), HasSubstr("file: expected a file, found none"));
  EXPECT_THAT(
      told(upload_of("--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--XX--")),
      HasSubstr("expected a filename"));
  EXPECT_THAT(told(upload_of(form("x").substr(0, 150))), HasSubstr("found its end"));
  EXPECT_THAT(told(upload_of("--XX\r\nContent-Disposition: form-data; "
                             "name=\"expires_after[seconds]\"\r\n\r\n1\r\n" +
                             form("x"))),
              HasSubstr("files stay until they are deleted"));
  EXPECT_THAT(told(upload_of("--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n" +
                             std::string(2000, 'a') + "\r\n" + form("x"))),
              HasSubstr("a: expected at most 1024 bytes"));
  EXPECT_THAT(
      told(upload_of("--XX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nb\r\n" +
                     form("x"))),
      HasSubstr("purpose: expected one part, found two"));
  EXPECT_THAT(told(post("/v1/files", "{}")), HasSubstr("415 "));
  EXPECT_THAT(told("POST /v1/files HTTP/1.1\r\nContent-Type: multipart/form-data\r\n"
                   "Content-Length: 3\r\n\r\nabc"),
              HasSubstr("expected a boundary"));
  EXPECT_EQ(num_kept(), 0U);
  upload("x");
  EXPECT_THAT(told(upload_of(form("x"))), HasSubstr("429 "));
  EXPECT_EQ(num_kept(), 2U);
  EXPECT_TRUE(still_answers());
}

TEST_F(StorageTest, AnUploadThatIsCutLeavesNothing) {
  start(hello, with_storage());
  const std::string body = form(std::string(4 << 20, 'x'));
  for (const bool is_reset : {false, true}) {
    TestClient client(port());
    client.send(upload_head("Content-Length: " + std::to_string(body.size())) +
                body.substr(0, 3 << 20));
    for (int i = 0; i < 1000 && num_kept() == 0; ++i) std::this_thread::sleep_for(5ms);
    EXPECT_EQ(num_kept(), 1U);
    is_reset ? client.reset() : client.close();
    for (int i = 0; i < 1000 && num_kept() > 0; ++i) std::this_thread::sleep_for(5ms);
    EXPECT_EQ(num_kept(), 0U);
  }
  EXPECT_TRUE(still_answers());
}

TEST_F(StorageTest, KeysSeeTheirOwnAlone) {
  ServerOptions options = with_storage();
  options.api_keys = {{"team-a", "first"}, {"team-b", "second"}};
  start(hello, options);
  const std::string a = "Authorization: Bearer first\r\n", b = "Authorization: Bearer second\r\n";
  EXPECT_EQ(ask(get("/v1/files")).status, 401);
  EXPECT_EQ(ask(upload_of(form("x"))).status, 401);
  const std::string id = upload(kLine, a);
  const std::string order =
      R"({"input_file_id":")" + id + R"(","endpoint":"/v1/completions","completion_window":"24h"})";
  EXPECT_EQ(ask(post("/v1/batches", order, b)).status, 404);
  const std::string batch = string_member(ask(post("/v1/batches", order, a)), "id");
  const std::string output = string_member(wait_for(batch, "completed", a), "output_file_id");
  for (const std::string& path : {"/v1/files/" + id, "/v1/files/" + id + "/content",
                                  "/v1/files/" + output, "/v1/batches/" + batch}) {
    EXPECT_EQ(ask(get(path, a)).status, 200) << path;
    EXPECT_EQ(ask(get(path, b)).status, 404) << path;
  }
  EXPECT_EQ(ask(with_method("DELETE", "/v1/files/" + id, b)).status, 404);
  EXPECT_EQ(ask(with_method("POST", "/v1/batches/" + batch + "/cancel", b)).status, 404);
  for (const char* path : {"/v1/files", "/v1/batches"})
    EXPECT_THAT(ask(get(path, b)).body, HasSubstr(R"("data":[],"first_id":null)"));
}

TEST_F(StorageTest, ListsComeInPages) {
  start(hello, with_storage());
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(upload("x"));
  std::vector<std::string> seen;
  std::string after;
  for (int page = 0; page < 3; ++page) {
    const HttpReply reply = ask(get("/v1/files?limit=2" + after));
    const Json json = *Json::parse(reply.body);
    for (const Json& file : json.find("data")->items())
      seen.push_back(file.find("id")->as_string());
    EXPECT_EQ(json.find("has_more")->as_bool(), page < 2);
    after = "&after=" + json.find("last_id")->as_string();
  }
  EXPECT_THAT(seen, testing::UnorderedElementsAreArray(ids));
  const std::string first = string_member(ask(get("/v1/files?order=asc&limit=1")), "first_id");
  EXPECT_EQ(first, seen.back());
  for (const char* wrong : {"limit=0", "limit=10001", "limit=x", "limit=", "order=up", "after=x"})
    EXPECT_EQ(ask(get("/v1/files?" + std::string(wrong))).status, 400) << wrong;
  EXPECT_EQ(ask(get("/v1/batches?limit=101")).status, 400);
}

TEST_F(StorageTest, NoIdLeadsElsewhere) {
  start(hello, with_storage());
  upload("x");
  for (const char* id : {"lock", "..", "%2e%2e%2flock", "../lock", "file-%00", "a/b/c", "%"}) {
    for (const std::string& path :
         {"/v1/files/" + std::string(id), "/v1/files/" + std::string(id) + "/content",
          "/v1/batches/" + std::string(id)}) {
      const HttpReply reply = ask(get(path));
      EXPECT_EQ(reply.status, 404) << path;
      EXPECT_TRUE(Json::parse(reply.body)) << path;
    }
    EXPECT_EQ(ask(with_method("DELETE", "/v1/files/" + std::string(id))).status, 404);
    EXPECT_EQ(ask(with_method("POST", "/v1/batches/" + std::string(id) + "/cancel")).status, 404);
  }
  EXPECT_EQ(num_kept(), 2U);
}

TEST_F(StorageTest, MethodsAndTypes) {
  start(hello, with_storage());
  const HttpReply reply = ask(with_method("DELETE", "/v1/files"));
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.header("allow"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(ask(with_method("POST", "/v1/files/x")).header("allow"), "GET, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(ask(with_method("GET", "/v1/batches/x/cancel")).status, 405);
  EXPECT_EQ(ask(with_method("POST", "/v1/batches")).status, 415);
  EXPECT_EQ(ask(post("/v1/batches", "nonsense")).status, 400);
  EXPECT_EQ(ask(post("/v1/batches", "{}")).status, 400);
}

TEST_F(StorageTest, FilesAreThereBeforeTheEngineIs) {
  listen(hello, with_storage());
  const std::string id = upload(kLine);
  const std::string batch = string_member(
      ask(post("/v1/batches", R"({"input_file_id":")" + id +
                                  R"(","endpoint":"/v1/completions","completion_window":"24h"})")),
      "id");
  wait_for(batch, "in_progress");
  server_->attach(*engine_);
  wait_for(batch, "completed");
}

TEST_F(StorageTest, AnotherServerCannotHaveTheFolder) {
  start(hello, with_storage());
  ServerOptions options = with_storage();
  options.port = 0;
  const auto second = Server::start(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kOverloaded);
}

TEST(HttpQuery, ValuesAreDecoded) {
  EXPECT_EQ(query_value("a=1&b=x%20y%&c", "b"), "x y%");
  EXPECT_EQ(query_value("a=1&%62=2&b=3", "b"), "2");
  EXPECT_EQ(query_value("a=1&c", "c"), "");
  EXPECT_EQ(query_value("a=1&&", "b"), std::nullopt);
  EXPECT_EQ(query_value("", ""), std::nullopt);
}

}  // namespace
}  // namespace stoker
