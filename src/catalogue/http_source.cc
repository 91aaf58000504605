#include "catalogue/http_source.h"

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <charconv>
#include <optional>
#include <utility>

#include "base/try.h"

namespace stoker::catalogue {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
// Of one kind of executor, which needs no run-time look.
using TcpStream = beast::basic_stream<asio::ip::tcp, asio::io_context::executor_type>;
using TlsStream = beast::ssl_stream<TcpStream>;

constexpr uint32_t kMaxHeadBytes = 32 << 10;
constexpr size_t kSkipBytes = 64 << 10;

// What is to be had: [offset, end) of a file.
struct Wanted {
  int64_t offset = 0;
  int64_t num_bytes = 0;  // of the whole file; 0: not known
};

// One exchange with one server, and the body as it comes.
class HttpBody : public ByteSource {
 public:
  HttpBody(Url url, const HttpLimits& limits) : url_(std::move(url)), limits_(limits) {}

  /// Connects, asks, and reads the head of the answer.
  Result<void> ask(int64_t offset) {
    if (auto connected = connect(); !connected) return connected;
    http::request<http::empty_body> request(http::verb::get, url_.path, 11);
    request.set(http::field::host, url_.authority());
    request.set(http::field::user_agent, "stoker");
    request.set(http::field::accept, "*/*");
    request.set(http::field::connection, "close");
    if (offset > 0) request.set(http::field::range, "bytes=" + std::to_string(offset) + "-");
    parser_.header_limit(kMaxHeadBytes);
    parser_.body_limit(boost::none);  // who reads asks for no more than there may be
    error_code error = run(limits_.connect, [&](auto& stream, auto done) {
      http::async_write(stream, request, done);
    });
    if (error) return lost("cannot be asked", error);
    error = run(limits_.connect, [&](auto& stream, auto done) {
      http::async_read_header(stream, buffer_, parser_, done);
    });
    if (error) return lost("no answer of HTTP", error);
    window_start_ = Clock::now();
    return {};
  }

  const http::response_header<>& head() const { return parser_.get().base(); }
  const Url& url() const { return url_; }
  std::optional<int64_t> content_length() const {
    const auto length = parser_.content_length();
    if (!length) return std::nullopt;
    return static_cast<int64_t>(std::min<uint64_t>(*length, INT64_MAX));
  }

  Result<size_t> read_some(std::span<uint8_t> out) override {
    auto& body = parser_.get().body();
    body.data = out.data();
    body.size = out.size();
    body.more = true;
    while (body.size == out.size() && !parser_.is_done()) {
      const error_code error = run(limits_.idle, [&](auto& stream, auto done) {
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

 private:
  Error lost(const std::string& what, const error_code& error) const {
    return {ErrorCode::kPeerLost, url_.text() + ": " + what + (error ? ": " + error.message() : ""),
            ""};
  }

  // Starts an operation and waits until it is done, for no longer than `limit`.
  template <class Start>
  error_code run(std::chrono::milliseconds limit, const Start& start) {
    error_code result;
    const auto done = [&result](const error_code& error, const auto&...) { result = error; };
    if (tls_stream_) {
      beast::get_lowest_layer(*tls_stream_).expires_after(limit);
      start(*tls_stream_, done);
    } else {
      stream_->expires_after(limit);
      start(*stream_, done);
    }
    io_.restart();
    io_.run();
    return result;
  }

  Result<void> connect() {
    error_code error;
    asio::ip::tcp::resolver resolver(io_);
    const auto addresses = resolver.resolve(url_.host, url_.port, error);
    if (error) return lost("its host cannot be found", error);
    if (url_.is_tls) {
      if (auto made = make_tls(); !made) return made;
    } else {
      stream_.emplace(io_);
    }
    error = run(limits_.connect, [&](auto& stream, auto done) {
      beast::get_lowest_layer(stream).async_connect(addresses, done);
    });
    if (error) return lost("cannot be connected to", error);
    if (!tls_stream_) return {};
    beast::get_lowest_layer(*tls_stream_).expires_after(limits_.connect);
    tls_stream_->async_handshake(asio::ssl::stream_base::client,
                                 [&error](const error_code& done) { error = done; });
    io_.restart();
    io_.run();
    if (!error) return {};
    // Not lost: a certificate does not get better.
    return Error{
        ErrorCode::kIo,
        url_.text() + ": no TLS with a certificate that can be trusted: " + error.message(), ""};
  }

  Result<void> make_tls() {
    tls_.emplace(asio::ssl::context::tls_client);
    error_code error;
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

  const Url url_;
  const HttpLimits limits_;
  asio::io_context io_;
  std::optional<asio::ssl::context> tls_;
  std::optional<TcpStream> stream_;  // one of these two
  std::optional<TlsStream> tls_stream_;
  beast::flat_buffer buffer_{kMaxHeadBytes + kSkipBytes};
  http::response_parser<http::buffer_body> parser_;
  Clock::time_point window_start_;
  int64_t window_bytes_ = 0;
};

Error wrong_size(const Url& url, int64_t expected, int64_t found) {
  return {ErrorCode::kCorruptData,
          url.text() + ": expected " + std::to_string(expected) + " bytes, found " +
              std::to_string(found),
          ""};
}

// "bytes 100-199/200" must be all from the offset on.
bool is_range_from(std::string_view text, const Wanted& wanted) {
  const std::string from = "bytes " + std::to_string(wanted.offset) + "-";
  if (!text.starts_with(from)) return false;
  if (wanted.num_bytes == 0) return true;
  const std::string end = std::to_string(wanted.num_bytes - 1);
  const std::string size = std::to_string(wanted.num_bytes);
  const std::string_view rest = text.substr(from.size());
  return rest == end + "/" + size || rest == end + "/*";
}

Result<void> skip(ByteSource& body, int64_t num_bytes) {
  std::array<uint8_t, kSkipBytes> bytes{};
  while (num_bytes > 0) {
    const auto n = std::min<int64_t>(num_bytes, kSkipBytes);
    if (auto read = read_exactly(body, std::span(bytes).first(static_cast<size_t>(n))); !read)
      return read;
    num_bytes -= n;
  }
  return {};
}

Result<void> check_range(HttpBody& body, const Wanted& wanted) {
  const Url& url = body.url();
  const auto length = body.content_length();
  const bool is_partial = body.head().result_int() == 206;
  const auto range = body.head()[http::field::content_range];
  if (is_partial && !is_range_from({range.data(), range.size()}, wanted)) {
    return Error{ErrorCode::kCorruptData,
                 url.text() + ": expected bytes from " + std::to_string(wanted.offset) +
                     " on, found the range '" + std::string(range) + "'",
                 ""};
  }
  const int64_t expected = wanted.num_bytes - (is_partial ? wanted.offset : 0);
  if (wanted.num_bytes > 0 && length && *length != expected)
    return wrong_size(url, expected, *length);
  const auto coding = body.head()[http::field::content_encoding];
  if (!coding.empty() && coding != "identity") {
    return Error{
        ErrorCode::kUnsupported,
        url.text() + ": expected the bytes as they are, found the coding " + std::string(coding),
        ""};
  }
  // A server that knows no ranges sends all of it.
  return is_partial ? Result<void>() : skip(body, wanted.offset);
}

Error refused(const Url& url, unsigned status) {
  const bool can_come_back = status == 408 || status == 429 || status >= 500;
  ErrorCode code = can_come_back ? ErrorCode::kPeerLost : ErrorCode::kIo;
  if (status == 404 || status == 410) code = ErrorCode::kNotFound;
  if (status == 416) code = ErrorCode::kCorruptData;  // shorter than what is asked for
  return {code, url.text() + ": expected status 200, found " + std::to_string(status), ""};
}

bool is_redirect(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

Result<std::unique_ptr<ByteSource>> HttpSource::open(const std::string& path, int64_t offset,
                                                     int64_t num_bytes) {
  Url url = base_.at(path);
  for (int num_redirects = 0; num_redirects <= limits_.max_redirects; ++num_redirects) {
    auto body = std::make_unique<HttpBody>(url, limits_);
    if (auto asked = body->ask(offset); !asked) return std::move(asked).error();
    const unsigned status = body->head().result_int();
    if (is_redirect(status)) {
      const auto location = body->head()[http::field::location];
      TRY_ASSIGN(url, redirected(url, {location.data(), location.size()}));
      continue;
    }
    if (status != 200 && (status != 206 || offset == 0)) return refused(url, status);
    if (auto checked = check_range(*body, {offset, num_bytes}); !checked)
      return std::move(checked).error();
    return std::unique_ptr<ByteSource>(std::move(body));
  }
  return Error{ErrorCode::kIo,
               base_.at(path).text() + ": expected at most " +
                   std::to_string(limits_.max_redirects) + " redirects, found more",
               ""};
}

}  // namespace stoker::catalogue
