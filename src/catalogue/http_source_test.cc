// Catalogues on servers that answer well, badly, and not at all.
#include "catalogue/http_source.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>

#include "catalogue/http_post.h"

namespace stoker::catalogue {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Answers each connection in turn with what a function makes of the request's head.
class ScriptedServer {
 public:
  using Answer = std::function<std::string(const std::string& head)>;

  explicit ScriptedServer(Answer answer) : answer_(std::move(answer)) {
    std::signal(SIGPIPE, SIG_IGN);
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(socket_, 16), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;
  ~ScriptedServer() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }

  Url url() const { return *parse_url("http://127.0.0.1:" + std::to_string(port_) + "/base"); }
  std::vector<std::string> heads() {
    const std::lock_guard lock(mutex_);
    return heads_;
  }

 private:
  void serve() {
    while (true) {
      const int peer = ::accept(socket_, nullptr, nullptr);
      if (peer < 0) return;
      std::string head;
      char c = 0;
      while (!head.ends_with("\r\n\r\n") && ::read(peer, &c, 1) == 1) head += c;
      // Closing with a body unread would take the answer away.
      const size_t length = head.find("Content-Length: ");
      const int left = length == std::string::npos ? 0 : std::atoi(head.c_str() + length + 16);
      for (int i = 0; i < left; ++i) (void)!::read(peer, &c, 1);
      {
        const std::lock_guard lock(mutex_);
        heads_.push_back(head);
      }
      const std::string answer = answer_(head);
      size_t written = 0;
      while (written < answer.size()) {
        const ssize_t n = ::write(peer, answer.data() + written, answer.size() - written);
        if (n <= 0) break;
        written += static_cast<size_t>(n);
      }
      // An empty answer is silence, until the other side has enough.
      if (answer.empty() && ::read(peer, &c, 1) >= 0) written = 0;
      ::close(peer);
    }
  }

  Answer answer_;
  int socket_ = -1;
  int port_ = 0;
  std::mutex mutex_;
  std::vector<std::string> heads_;  // under mutex_
  std::jthread thread_;
};

std::string answer_of(const std::string& status, const std::string& fields,
                      const std::string& body) {
  return "HTTP/1.1 " + status + "\r\n" + fields + "\r\n" + body;
}

std::string sized(const std::string& status, const std::string& body,
                  const std::string& fields = "") {
  return answer_of(status, fields + "Content-Length: " + std::to_string(body.size()) + "\r\n",
                   body);
}

Result<std::string> get(const Url& url, const std::string& path, int64_t offset = 0,
                        int64_t num_bytes = 0, HttpLimits limits = {}) {
  HttpSource source(url, limits);
  auto bytes = source.open(path, offset, num_bytes);
  if (!bytes) return bytes.error();
  return read_text(**bytes, 1000);
}

TEST(HttpSource, ReadsAFileAndTheRestOfOne) {
  ScriptedServer server([](const std::string& head) {
    if (head.find("Range: bytes=4-\r\n") == std::string::npos) return sized("200 OK", "0123456789");
    return sized("206 Partial Content", "456789", "Content-Range: bytes 4-9/10\r\n");
  });
  EXPECT_EQ(*get(server.url(), "index"), "0123456789");
  EXPECT_EQ(*get(server.url(), "objects/a", 4, 10), "456789");
  EXPECT_THAT(server.heads()[0], HasSubstr("GET /base/index HTTP/1.1\r\n"));
}

TEST(HttpSource, SkipsWhatAServerWithoutRangesSends) {
  ScriptedServer server([](const std::string&) { return sized("200 OK", "0123456789"); });
  EXPECT_EQ(*get(server.url(), "a", 4, 10), "456789");
}

TEST(HttpSource, ReadsChunksAndBodiesThatEndWithTheConnection) {
  ScriptedServer chunked([](const std::string&) {
    return answer_of("200 OK", "Transfer-Encoding: chunked\r\n",
                     "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  });
  EXPECT_EQ(*get(chunked.url(), "a"), "abcde");
  ScriptedServer closing([](const std::string&) { return answer_of("200 OK", "", "abcde"); });
  EXPECT_EQ(*get(closing.url(), "a"), "abcde");
}

TEST(HttpSource, RefusesOtherSizesAndRanges) {
  struct Case {
    std::string answer;
    std::string message;
  };
  for (const Case& row :
       {Case{sized("200 OK", "012345678"), "expected 10 bytes, found 9"},
        Case{sized("206 Partial Content", "456789", "Content-Range: bytes 3-9/10\r\n"), "range"},
        Case{sized("206 Partial Content", "456789", "Content-Range: bytes 4-9/11\r\n"), "range"},
        Case{sized("206 Partial Content", "456789"), "range"},
        Case{sized("206 Partial Content", "45678", "Content-Range: bytes 4-9/10\r\n"),
             "expected 6 bytes, found 5"},
        Case{sized("200 OK", "0123456789", "Content-Encoding: gzip\r\n"), "coding gzip"},
        Case{answer_of("200 OK", "Content-Length: 99999999999999999999\r\n", ""), "HTTP"},
        Case{answer_of("200 OK", "Content-Length: 10\r\nContent-Length: 11\r\n", ""), "HTTP"},
        Case{"SSH-2.0-OpenSSH\r\n\r\n", "no answer of HTTP"},
        Case{"HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n", "HTTP"},
        Case{sized("416 Range Not Satisfiable", ""), "found 416"},
        Case{sized("403 Forbidden", ""), "found 403"}}) {
    ScriptedServer server([&row](const std::string&) { return row.answer; });
    const auto text = get(server.url(), "a", 4, 10);
    ASSERT_FALSE(text) << row.answer;
    EXPECT_THAT(text.error().message, HasSubstr(row.message));
  }
}

TEST(HttpSource, TellsWhatMayComeBack) {
  const std::pair<const char*, ErrorCode> kStatuses[] = {
      {"404 Not Found", ErrorCode::kNotFound},
      {"410 Gone", ErrorCode::kNotFound},
      {"503 Service Unavailable", ErrorCode::kPeerLost},
      {"429 Slow Down", ErrorCode::kPeerLost},
      {"401 Unauthorized", ErrorCode::kIo},
      {"204 No Content", ErrorCode::kIo}};
  for (const auto& [status, code] : kStatuses) {
    ScriptedServer server([&, line = status](const std::string&) { return sized(line, ""); });
    EXPECT_EQ(get(server.url(), "a").error().code, code) << status;
  }
  ScriptedServer cut(
      [](const std::string&) { return answer_of("200 OK", "Content-Length: 10\r\n", "0123"); });
  EXPECT_EQ(get(cut.url(), "a").error().code, ErrorCode::kPeerLost);
  EXPECT_EQ(get(*parse_url("http://127.0.0.1:1/"), "a").error().code, ErrorCode::kPeerLost);
}

TEST(HttpSource, FollowsFewRedirectsToGoodPlaces) {
  ScriptedServer server([](const std::string& head) {
    if (head.starts_with("GET /base/a ")) return answer_of("302 Found", "Location: /b?c=1\r\n", "");
    if (head.starts_with("GET /b?c=1 ")) return sized("200 OK", "there");
    if (head.starts_with("GET /base/away "))
      return answer_of("302 Found", "Location: http://example.org/\r\n", "");
    if (head.starts_with("GET /base/none ")) return answer_of("302 Found", "", "");
    return answer_of("307 Temporary Redirect", "Location: /base/loop\r\n", "");
  });
  EXPECT_EQ(*get(server.url(), "a"), "there");
  EXPECT_EQ(get(server.url(), "away").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(get(server.url(), "none").error().code, ErrorCode::kCorruptData);
  const size_t before = server.heads().size();
  EXPECT_THAT(get(server.url(), "loop").error().message, HasSubstr("at most 5 redirects"));
  EXPECT_EQ(server.heads().size() - before, 6U);
}

TEST(HttpSource, WaitsNoLongerThanItsLimits) {
  ScriptedServer silent([](const std::string&) { return std::string(); });
  HttpLimits limits;
  limits.connect = 100ms;
  const auto text = get(silent.url(), "a", 0, 0, limits);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kPeerLost);
}

TEST(HttpSource, ReadsNoMoreThanAskedOfAnEndlessBody) {
  ScriptedServer server(
      [](const std::string&) { return answer_of("200 OK", "", std::string(50 << 20, 'x')); });
  const auto text = get(server.url(), "a");
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, HasSubstr("expected at most 1000 bytes, found more"));
}

TEST(HttpPost, SendsAKeyAndABody) {
  ScriptedServer server([](const std::string& head) {
    const bool is_asked = head.starts_with("POST /admin/snapshot HTTP/1.1\r\n");
    return is_asked ? "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nbusy"
                    : std::string("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
  });
  Url place = server.url();
  place.path = "/";
  const auto answer = post_json(place.text(), "/admin/snapshot", "secret", "{}", 5s);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 429);
  EXPECT_EQ(answer->body, "busy");
  const std::string head = server.heads().front();
  EXPECT_THAT(head, HasSubstr("Authorization: Bearer secret\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Length: 2\r\n"));
}

// A redirect would take the key elsewhere.
TEST(HttpPost, WaitsNoLongerAndFollowsNobody) {
  ScriptedServer moved([](const std::string&) {
    return "HTTP/1.1 307 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n";
  });
  const auto answer = post_json(moved.url().text(), "/a", "k", "{}", 5s);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 307);
  EXPECT_EQ(moved.heads().size(), 1U);
  ScriptedServer silent([](const std::string&) { return ""; });
  const auto none = post_json(silent.url().text(), "/a", "", "{}", 100ms);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kPeerLost);
  ScriptedServer endless([](const std::string&) {
    return "HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + std::string(3'000'000, 'a');
  });
  const auto huge = post_json(endless.url().text(), "/a", "", "{}", 5s);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, ErrorCode::kCorruptData);
  EXPECT_EQ(post_json("unix:/nowhere", "/a", "", "{}", 5s).error().code, ErrorCode::kPeerLost);
  EXPECT_EQ(post_json("unix:/" + std::string(200, 'a'), "/a", "", "{}", 5s).error().code,
            ErrorCode::kPeerLost);
  EXPECT_EQ(post_json("nonsense", "/a", "", "{}", 5s).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace stoker::catalogue
