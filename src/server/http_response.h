// Heads of HTTP responses, and the framing of their bodies.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace stoker {

/// What the head of a response says. A plain value.
struct ResponseHead {
  int status = 200;
  int version = 11;                               ///< of the request
  bool keep_alive = true;                         ///< the connection stays open after it
  const char* content_type = "application/json";  ///< empty: there is no body
  std::optional<size_t> content_length = {};  ///< none: the length is not known (an event stream)
  std::string_view request_id = {};           ///< may be empty
  std::string_view allow = {};                ///< methods; empty: not told
  std::string_view cors = {};                 ///< lines of cors_lines
  int retry_after_s = 1;                      ///< told where is_worth_retrying(status)
};

/// Status line and headers, with the empty line behind them.
std::string response_head(const ResponseHead& head);

/// Appends one piece of a body of unknown length, which is not empty: a chunk, or the bytes
/// themselves, as HTTP/1.0 has it.
void append_chunk(std::string& out, bool is_chunked, std::string_view bytes);

/// Appends what ends such a body. HTTP/1.0 ends with the connection.
void append_last_chunk(std::string& out, bool is_chunked);

}  // namespace stoker
