#include "catalogue/url.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/try.h"

namespace stoker::catalogue {
namespace {

constexpr std::string_view kPlainScheme = "http://";
constexpr std::string_view kTlsScheme = "https://";
constexpr std::string_view kUnixScheme = "unix:";

Error no_url(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "address: expected " + what, ""};
}

bool is_host_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

bool is_path_letter(char c) {
  return c > 0x20 && c < 0x7f && c != '"' && c != '<' && c != '>' && c != '\\' && c != '#';
}

bool is_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535 &&
         text.front() != '0';
}

// The host, in brackets or not; takes it off.
Result<std::string> take_host(std::string_view& rest) {
  std::string_view host;
  bool is_good = false;
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) return no_url("a ']' behind its host");
    host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    is_good = host.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
  } else {
    host = rest.substr(0, rest.find(':'));
    rest.remove_prefix(host.size());
    is_good = std::ranges::all_of(host, is_host_letter);
  }
  if (host.empty() || host.size() > 255 || !is_good) return no_url("a host");
  return std::string(host);
}

// An address; of a redirect it may have a query.
Result<Url> parse_address(std::string_view text, bool may_have_query) {
  if (!is_url(text) || text.size() > kMaxUrlBytes)
    return no_url("http:// or https:// and at most " + std::to_string(kMaxUrlBytes) + " bytes");
  Url url;
  url.is_tls = text.starts_with(kTlsScheme);
  text.remove_prefix(url.is_tls ? kTlsScheme.size() : kPlainScheme.size());
  std::string_view authority = text.substr(0, text.find_first_of("/?#"));
  const std::string_view path = text.substr(authority.size());
  if (authority.find('@') != std::string_view::npos) return no_url("no user in it");
  TRY_ASSIGN(url.host, take_host(authority));
  url.port = url.is_tls ? "443" : "80";
  if (!authority.empty()) {
    if (authority.size() < 2 || authority.front() != ':' || !is_port(authority.substr(1)))
      return no_url("a port of 1 to 65535 behind its host");
    url.port = authority.substr(1);
  }
  if (!std::ranges::all_of(path, is_path_letter))
    return no_url("a path without fragment, of printable ASCII");
  if (!may_have_query && path.find('?') != std::string_view::npos) return no_url("no query in it");
  url.path = path.starts_with('/') ? std::string(path) : "/" + std::string(path);
  return url;
}

}  // namespace

std::string Url::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (is_tls ? "443" : "80") ? name : name + ":" + port;
}

std::string Url::text() const {
  if (!socket.empty()) return std::string(kUnixScheme) + socket + path;
  return std::string(is_tls ? kTlsScheme : kPlainScheme) + authority() + path;
}

Url Url::at(std::string_view path_behind) const {
  Url url = *this;
  if (!url.path.ends_with('/')) url.path += '/';
  url.path += path_behind;
  return url;
}

bool is_url(std::string_view text) {
  return text.starts_with(kPlainScheme) || text.starts_with(kTlsScheme);
}

Result<Url> parse_url(std::string_view text) {
  return parse_address(text, false);
}

Result<Url> parse_server(std::string_view text) {
  if (!text.starts_with(kUnixScheme)) return parse_url(text);
  const std::string_view socket = text.substr(kUnixScheme.size());
  if (socket.empty() || socket.find('\0') != std::string_view::npos)
    return no_url("a file behind unix:");
  return Url{false, "localhost", "80", "/", std::string(socket)};
}

Result<Url> redirected(const Url& from, std::string_view location) {
  std::string text(location);
  if (location.starts_with("/") && !location.starts_with("//"))
    text = Url{from.is_tls, from.host, from.port, ""}.text() + text;
  auto url = parse_address(text, true);
  if (!url) {
    return Error{ErrorCode::kCorruptData, "redirect: " + url.error().message, ""};
  }
  const bool is_allowed = url->is_tls || (!from.is_tls && url->host == from.host);
  if (is_allowed) return url;
  return Error{ErrorCode::kUnsupported,
               "redirect: expected https, or the same host, found " + url->text(), ""};
}

}  // namespace stoker::catalogue
