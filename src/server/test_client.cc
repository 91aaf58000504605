#include "server/test_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace stoker {
namespace {

using Clock = std::chrono::steady_clock;

int connect_to(uint16_t port, int receive_buffer_bytes) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer_bytes > 0) {
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

// Reads "HTTP/1.1 200 OK".
int status_of(const std::string& line) {
  return line.size() < 12 || line.rfind("HTTP/1.1 ", 0) != 0 ? 0 : std::stoi(line.substr(9, 3));
}

}  // namespace

std::string HttpReply::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::vector<std::string> HttpReply::events() const {
  std::vector<std::string> out;
  for (size_t begin = 0; begin < body.size();) {
    const size_t end = std::min(body.find("\n\n", begin), body.size());
    const std::string event = body.substr(begin, end - begin);
    if (event.rfind("data: ", 0) == 0) out.push_back(event.substr(6));
    begin = end + 2;
  }
  return out;
}

TestClient::TestClient(uint16_t port, int receive_buffer_bytes)
    : socket_(connect_to(port, receive_buffer_bytes)), is_ended_(socket_ < 0) {}

TestClient::~TestClient() {
  close();
}

bool TestClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      was_reset_ = true;
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void TestClient::shutdown_send() {
  ::shutdown(socket_, SHUT_WR);
}

void TestClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  is_ended_ = true;
}

void TestClient::reset() {
  const linger hard{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  close();
}

// Adds what comes to input_; false at the end of the connection or at the deadline.
bool TestClient::receive(Clock::time_point deadline) {
  if (is_ended_) return false;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd events{socket_, POLLIN, 0};
  if (left <= 0 || ::poll(&events, 1, static_cast<int>(left)) <= 0) return false;
  char buffer[65536];
  const ssize_t received = ::recv(socket_, buffer, sizeof buffer, 0);
  if (received <= 0) {
    is_ended_ = true;
    was_reset_ = was_reset_ || received < 0;
    return false;
  }
  input_.append(buffer, static_cast<size_t>(received));
  return true;
}

std::optional<std::string> TestClient::read_line(Clock::time_point deadline) {
  for (;;) {
    const size_t end = input_.find("\r\n");
    if (end != std::string::npos) {
      std::string line = input_.substr(0, end);
      input_.erase(0, end + 2);
      return line;
    }
    if (!receive(deadline)) return std::nullopt;
  }
}

std::optional<std::string> TestClient::read_bytes(size_t num_bytes, Clock::time_point deadline) {
  while (input_.size() < num_bytes) {
    if (!receive(deadline)) return std::nullopt;
  }
  std::string bytes = input_.substr(0, num_bytes);
  input_.erase(0, num_bytes);
  return bytes;
}

std::optional<HttpReply> TestClient::read_reply(std::chrono::milliseconds limit, bool has_body) {
  const auto deadline = Clock::now() + limit;
  HttpReply reply;
  auto line = read_line(deadline);
  if (!line) return std::nullopt;
  reply.status = status_of(*line);
  while ((line = read_line(deadline)) && !line->empty()) {
    const size_t colon = line->find(": ");
    if (colon == std::string::npos) return std::nullopt;
    std::string name = line->substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    reply.headers[name] = line->substr(colon + 2);
  }
  if (!line) return std::nullopt;
  if (!has_body || reply.status == 100 || reply.status == 204) return reply;
  if (const std::string length = reply.header("content-length"); !length.empty()) {
    auto body = read_bytes(std::stoul(length), deadline);
    if (!body) return std::nullopt;
    reply.body = *std::move(body);
    return reply;
  }
  if (reply.header("transfer-encoding") != "chunked") {
    while (receive(deadline)) {
    }
    reply.body = std::exchange(input_, "");
    return reply;
  }
  for (;;) {
    const auto size_line = read_line(deadline);
    if (!size_line) return std::nullopt;
    const size_t size = std::stoul(*size_line, nullptr, 16);
    const auto chunk = read_bytes(size + 2, deadline);
    if (!chunk) return std::nullopt;
    if (size == 0) return reply;
    reply.body += chunk->substr(0, size);
  }
}

bool TestClient::read_until(std::string_view text, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (input_.find(text) == std::string::npos) {
    if (!receive(deadline)) return false;
  }
  return true;
}

bool TestClient::read_some(size_t num_bytes, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (input_.size() < num_bytes) {
    if (!receive(deadline)) return false;
  }
  return true;
}

bool TestClient::is_closed_by_server(std::chrono::milliseconds limit) {
  if (!input_.empty()) return false;
  return !receive(Clock::now() + limit) && is_ended_;
}

std::string post(std::string_view path, std::string_view body, std::string_view headers) {
  std::string out = "POST " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n";
  out += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size());
  return out.append("\r\n").append(headers).append("\r\n").append(body);
}

std::string get(std::string_view path, std::string_view headers) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" + std::string(headers) + "\r\n";
}

}  // namespace stoker
