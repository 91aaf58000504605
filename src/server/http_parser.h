// Bytes of a connection to HTTP/1.x requests. Beast's incremental parser stands behind it and
// decides what is well-formed; this file adds what it leaves open: limits on every part that may
// wait for more bytes, and the refusal of transfer encodings that two servers could read in two
// ways.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http_error.h"

namespace boost::system {
class error_code;
}

namespace stoker {

/// What the server reads of a request. A plain value.
struct HttpRequest {
  std::string method;              ///< as sent: "GET"
  std::string path;                ///< of the target, without its query; escapes as sent
  std::string query;               ///< of the target, behind the "?"; escapes as sent
  int version = 11;                ///< 10 or 11
  bool keep_alive = true;          ///< the client lets the connection be used again
  bool expects_continue = false;   ///< it waits for "100 Continue" before it sends the body
  std::string content_type;        ///< lower case, without parameters; empty if there is none
  std::string content_parameters;  ///< of the type, as sent; empty if there are none
  std::string content_encoding;    ///< lower case; empty if there is none
  std::string accept;              ///< media types that the client takes; may be empty
  std::string origin;              ///< of the page that asks; empty if there is none
  std::string wanted_headers;      ///< that the page wants to send; empty if there are none
  std::string request_id;          ///< X-Request-Id, if it is 1 to 128 visible ASCII characters
  std::string key;  ///< of "Authorization: Bearer KEY", else of "X-Api-Key: KEY"; may be empty
  std::string body;
};

struct HttpLimits {
  size_t max_header_bytes = size_t{64} << 10;  ///< also of a chunk's header and of the trailer
  size_t max_header_fields = 256;
  size_t max_body_bytes = size_t{64} << 20;
  /// What counts in its place for the body of a request to this path; null: nothing.
  std::function<std::optional<size_t>(std::string_view path)> max_body_bytes_of = {};
};

/// Parses one request at a time. Not thread-safe.
class HttpParser {
 public:
  enum class State {
    kHead,    ///< more bytes of the head are needed
    kBody,    ///< request() is there but for its body
    kDone,    ///< request() is whole
    kFailed,  ///< error() says why; the connection cannot be used further
  };

  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  /// Reads from `input`, which starts with the bytes that the call before did not use, and returns
  /// how many it used. Stops behind the end of the request. Must not be called in kDone or kFailed.
  size_t feed(std::string_view input);

  State state() const { return state_; }
  bool has_started() const { return has_started_; }  ///< some bytes of the request have been seen
  HttpRequest& request();                            ///< its head from kBody on
  const HttpRequest& request() const;
  const HttpError& error() const { return error_; }  ///< in kFailed

  /// Forgets the request and waits for the next one.
  void reset();

 private:
  class Reader;

  void fail(int status, std::string message);
  void fail_as(const boost::system::error_code& error);

  HttpLimits limits_;
  std::unique_ptr<Reader> reader_;
  State state_ = State::kHead;
  bool has_started_ = false;
  HttpError error_;
};

}  // namespace stoker
