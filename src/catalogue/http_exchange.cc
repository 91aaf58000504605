#include "catalogue/http_exchange.h"

#include <algorithm>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <utility>

namespace stoker::catalogue {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

// Of sockaddr_un::sun_path, with its end.
constexpr size_t kMaxSocketPathBytes = 107;

template <class Body>
http::request<Body> request_of(http::verb verb, const Url& url) {
  http::request<Body> request(verb, url.path, 11);
  request.set(http::field::host, url.authority());
  request.set(http::field::user_agent, "stoker");
  request.set(http::field::accept, "*/*");
  request.set(http::field::connection, "close");
  return request;
}

}  // namespace

Result<void> HttpExchange::get(int64_t offset) {
  auto request = request_of<http::empty_body>(http::verb::get, url_);
  if (offset > 0) request.set(http::field::range, "bytes=" + std::to_string(offset) + "-");
  return ask(std::move(request), limits_.connect);
}

Result<void> HttpExchange::post_json(const std::string& key, const std::string& body,
                                     std::chrono::milliseconds answer_limit) {
  auto request = request_of<http::string_body>(http::verb::post, url_);
  request.set(http::field::content_type, "application/json");
  if (!key.empty()) request.set(http::field::authorization, "Bearer " + key);
  request.body() = body;
  request.prepare_payload();
  return ask(std::move(request), answer_limit);
}

template <class Body>
Result<void> HttpExchange::ask(http::request<Body> request,
                               std::chrono::milliseconds answer_limit) {
  if (auto connected = connect(); !connected) return connected;
  parser_.header_limit(kMaxHeadBytes);
  parser_.body_limit(boost::none);  // who reads asks for no more than there may be
  BoostError error = run(
      limits_.connect, [&](auto& stream, auto done) { http::async_write(stream, request, done); });
  if (error) return lost("cannot be asked", error);
  error = run(answer_limit, [&](auto& stream, auto done) {
    http::async_read_header(stream, buffer_, parser_, done);
  });
  if (error) return lost("no answer of HTTP", error);
  window_start_ = Clock::now();
  return {};
}

std::optional<int64_t> HttpExchange::content_length() const {
  const auto length = parser_.content_length();
  if (!length) return std::nullopt;
  return static_cast<int64_t>(std::min<uint64_t>(*length, INT64_MAX));
}

Result<size_t> HttpExchange::read_some(std::span<uint8_t> out) {
  auto& body = parser_.get().body();
  body.data = out.data();
  body.size = out.size();
  body.more = true;
  while (body.size == out.size() && !parser_.is_done()) {
    const BoostError error = run(limits_.idle, [&](auto& stream, auto done) {
      http::async_read_some(stream, buffer_, parser_, done);
    });
    if (error && error != http::error::need_buffer) return lost("ended early", error);
    if (Clock::now() - window_start_ > limits_.window) {
      if (window_bytes_ + static_cast<int64_t>(out.size() - body.size) < limits_.window_bytes)
        return lost("sends next to nothing", error);
      window_start_ = Clock::now();
      window_bytes_ = 0;
    }
  }
  const size_t num_read = out.size() - body.size;
  window_bytes_ += static_cast<int64_t>(num_read);
  return num_read;
}

Error HttpExchange::lost(const std::string& what, const BoostError& error) const {
  return {ErrorCode::kPeerLost, url_.text() + ": " + what + (error ? ": " + error.message() : ""),
          ""};
}

// Starts an operation and waits until it is done, for no longer than `limit`.
template <class Start>
HttpExchange::BoostError HttpExchange::run(std::chrono::milliseconds limit, const Start& start) {
  BoostError result;
  const auto done = [&result](const BoostError& error, const auto&...) { result = error; };
  if (tls_stream_) {
    beast::get_lowest_layer(*tls_stream_).expires_after(limit);
    start(*tls_stream_, done);
  } else if (unix_stream_) {
    unix_stream_->expires_after(limit);
    start(*unix_stream_, done);
  } else {
    stream_->expires_after(limit);
    start(*stream_, done);
  }
  io_.restart();
  io_.run();
  return result;
}

Result<void> HttpExchange::connect() {
  if (!url_.socket.empty()) return connect_unix();
  BoostError error;
  asio::ip::tcp::resolver resolver(io_);
  const auto addresses = resolver.resolve(url_.host, url_.port, error);
  if (error) return lost("its host cannot be found", error);
  if (url_.is_tls) {
    if (auto made = make_tls(); !made) return made;
  } else {
    stream_.emplace(io_);
  }
  TcpStream& lowest = tls_stream_ ? beast::get_lowest_layer(*tls_stream_) : *stream_;
  lowest.expires_after(limits_.connect);
  lowest.async_connect(addresses, [&error](const BoostError& done, const auto&) { error = done; });
  io_.restart();
  io_.run();
  if (error) return lost("cannot be connected to", error);
  if (!tls_stream_) return {};
  lowest.expires_after(limits_.connect);
  tls_stream_->async_handshake(asio::ssl::stream_base::client,
                               [&error](const BoostError& done) { error = done; });
  io_.restart();
  io_.run();
  if (!error) return {};
  // Not lost: a certificate does not get better.
  return Error{ErrorCode::kIo,
               url_.text() + ": no TLS with a certificate that can be trusted: " + error.message(),
               ""};
}

Result<void> HttpExchange::connect_unix() {
  if (url_.socket.size() > kMaxSocketPathBytes)
    return lost("expected a path of at most " + std::to_string(kMaxSocketPathBytes) + " bytes", {});
  unix_stream_.emplace(io_);
  BoostError error;
  unix_stream_->expires_after(limits_.connect);
  unix_stream_->async_connect(asio::local::stream_protocol::endpoint(url_.socket),
                              [&error](const BoostError& done) { error = done; });
  io_.restart();
  io_.run();
  if (error) return lost("cannot be connected to", error);
  return {};
}

Result<void> HttpExchange::make_tls() {
  tls_.emplace(asio::ssl::context::tls_client);
  BoostError error;
  tls_->set_default_verify_paths(error);
  if (!error) tls_->set_verify_mode(asio::ssl::verify_peer, error);
  if (!error) {
    const auto versions = asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1;
    tls_->set_options(asio::ssl::context::default_workarounds | versions, error);
  }
  if (error) return lost("TLS cannot be set up", error);
  tls_stream_.emplace(io_, *tls_);
  tls_stream_->set_verify_callback(asio::ssl::host_name_verification(url_.host), error);
  if (error) return lost("TLS cannot be set up", error);
  asio::ip::make_address(url_.host, error);
  const bool is_name = static_cast<bool>(error);  // an address has no place in the greeting
  if (is_name && SSL_set_tlsext_host_name(tls_stream_->native_handle(), url_.host.c_str()) != 1)
    return lost("TLS cannot be set up", {});
  return {};
}

}  // namespace stoker::catalogue
