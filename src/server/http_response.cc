#include "server/http_response.h"

#include <charconv>

#include "server/http_error.h"

namespace stoker {

std::string response_head(const ResponseHead& head) {
  std::string out = "HTTP/1.1 " + std::to_string(head.status) + " " + reason_phrase(head.status) +
                    "\r\nServer: stoker\r\n";
  out += head.cors;
  const auto add = [&out](std::string_view name, std::string_view value) {
    out.append(name).append(": ").append(value).append("\r\n");
  };
  if (!head.request_id.empty()) add("X-Request-Id", head.request_id);
  if (!head.allow.empty()) add("Allow", head.allow);
  if (head.status == 401) add("WWW-Authenticate", "Bearer");
  if (is_worth_retrying(head.status)) add("Retry-After", std::to_string(head.retry_after_s));
  if (!head.content_length) {
    add("Content-Type", head.content_type);
    add("Cache-Control", "no-cache");
    add("X-Accel-Buffering", "no");
    if (head.version >= 11) add("Transfer-Encoding", "chunked");
  } else if (head.status != 204) {
    if (*head.content_type != '\0') add("Content-Type", head.content_type);
    add("Content-Length", std::to_string(*head.content_length));
  }
  if (!head.keep_alive) {
    add("Connection", "close");
  } else if (head.version < 11) {
    add("Connection", "keep-alive");
  }
  return out + "\r\n";
}

void append_chunk(std::string& out, bool is_chunked, std::string_view bytes) {
  if (!is_chunked) {
    out += bytes;
    return;
  }
  char size[16];
  const char* const end = std::to_chars(size, size + sizeof size, bytes.size(), 16).ptr;
  const std::string_view digits(size, static_cast<size_t>(end - size));
  out.append(digits).append("\r\n").append(bytes).append("\r\n");
}

void append_last_chunk(std::string& out, bool is_chunked) {
  if (is_chunked) out += "0\r\n\r\n";
}

}  // namespace stoker
