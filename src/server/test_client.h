// A blocking HTTP client that does what a test tells it, wrong things included.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;                            ///< chunks joined

  std::string header(const std::string& name) const;  ///< empty if it is not there
  /// The data of each server-sent event in the body.
  std::vector<std::string> events() const;
};

/// A TCP connection to 127.0.0.1.
class TestClient {
 public:
  explicit TestClient(uint16_t port, int receive_buffer_bytes = 0);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  /// Sends all of it; false if the server does not take it.
  bool send(std::string_view bytes);
  void shutdown_send();  ///< FIN
  void close();          ///< FIN, or RST where something is unread
  void reset();          ///< RST

  /// The next reply, up to its end; nothing if the connection ends or stays silent for `limit`
  /// before that.
  std::optional<HttpReply> read_reply(std::chrono::milliseconds limit = std::chrono::seconds(20),
                                      bool has_body = true);
  /// Reads until what was read since the last reply holds `text`; false if the connection ends or
  /// is silent.
  bool read_until(std::string_view text,
                  std::chrono::milliseconds limit = std::chrono::seconds(20));
  /// Reads until so many bytes have come since the last reply; false if the connection ends or is
  /// silent before.
  bool read_some(size_t num_bytes, std::chrono::milliseconds limit = std::chrono::seconds(20));
  const std::string& unread() const { return input_; }  ///< what came since the last reply
  /// Waits for the server's end of the connection; false after `limit`, or if bytes come.
  bool is_closed_by_server(std::chrono::milliseconds limit = std::chrono::seconds(20));
  bool was_reset() const { return was_reset_; }  ///< the connection ended by RST

 private:
  bool receive(std::chrono::steady_clock::time_point deadline);
  std::optional<std::string> read_line(std::chrono::steady_clock::time_point deadline);
  std::optional<std::string> read_bytes(size_t num_bytes,
                                        std::chrono::steady_clock::time_point deadline);

  int socket_ = -1;
  bool is_ended_ = false;
  bool was_reset_ = false;
  std::string input_;
};

/// A POST of a JSON body, with further header lines ("Name: value\r\n").
std::string post(std::string_view path, std::string_view body, std::string_view headers = "");
/// A request without a body.
std::string get(std::string_view path, std::string_view headers = "");

}  // namespace stoker
