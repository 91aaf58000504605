// One request to a server by HTTP/1.1, over TCP, TLS or a Unix socket, and the body of its answer
// as it comes. Every wait has a limit. For the files of this room: it shows Boost.
#pragma once

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "catalogue/byte_source.h"
#include "catalogue/http_source.h"
#include "catalogue/url.h"

namespace stoker::catalogue {

/// Used by one thread, for one request.
class HttpExchange : public ByteSource {
 public:
  HttpExchange(Url url, const HttpLimits& limits) : url_(std::move(url)), limits_(limits) {}

  /// Connects, asks for the bytes from `offset` on, and reads the head of the answer. Errors:
  /// kPeerLost; kIo for a certificate that cannot be trusted.
  Result<void> get(int64_t offset);
  /// The same with a JSON body and a key; the answer may take `answer_limit`.
  Result<void> post_json(const std::string& key, const std::string& body,
                         std::chrono::milliseconds answer_limit);

  const boost::beast::http::response_header<>& head() const { return parser_.get().base(); }
  const Url& url() const { return url_; }
  std::optional<int64_t> content_length() const;

  /// Error: kPeerLost.
  Result<size_t> read_some(std::span<uint8_t> out) override;

 private:
  using BoostError = boost::system::error_code;
  using Clock = std::chrono::steady_clock;
  using Executor = boost::asio::io_context::executor_type;
  // Of one kind of executor, which needs no run-time look.
  using TcpStream = boost::beast::basic_stream<boost::asio::ip::tcp, Executor>;
  using TlsStream = boost::beast::ssl_stream<TcpStream>;
  using UnixStream = boost::beast::basic_stream<boost::asio::local::stream_protocol, Executor>;

  template <class Body>
  Result<void> ask(boost::beast::http::request<Body> request,
                   std::chrono::milliseconds answer_limit);
  template <class Start>
  BoostError run(std::chrono::milliseconds limit, const Start& start);
  Error lost(const std::string& what, const BoostError& error) const;
  Result<void> connect();
  Result<void> connect_unix();
  Result<void> make_tls();

  static constexpr uint32_t kMaxHeadBytes = 32 << 10;
  static constexpr size_t kReadAheadBytes = 64 << 10;

  const Url url_;
  const HttpLimits limits_;
  boost::asio::io_context io_;
  std::optional<boost::asio::ssl::context> tls_;
  std::optional<TcpStream> stream_;  // one of these three
  std::optional<TlsStream> tls_stream_;
  std::optional<UnixStream> unix_stream_;
  boost::beast::flat_buffer buffer_{kMaxHeadBytes + kReadAheadBytes};
  boost::beast::http::response_parser<boost::beast::http::buffer_body> parser_;
  Clock::time_point window_start_;
  int64_t window_bytes_ = 0;
};

}  // namespace stoker::catalogue
