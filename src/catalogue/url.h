// Addresses of servers, as one writes them and as servers redirect to them.
#pragma once

#include <string>
#include <string_view>

#include "stoker/result.h"

namespace stoker::catalogue {

constexpr size_t kMaxUrlBytes = 8192;

/// http://host[:port]/path, or a path at a server's Unix socket. A plain value.
struct Url {
  bool is_tls = false;
  std::string host;         ///< a name or address, without brackets
  std::string port;         ///< digits
  std::string path;         ///< "/" and more; of a redirect with its query
  std::string socket = {};  ///< a file, in the place of host and port; "": none

  /// What stands in the Host header.
  std::string authority() const;
  std::string text() const;
  /// The same place with "/" and `path_behind` behind its path.
  Url at(std::string_view path_behind) const;

  bool operator==(const Url&) const = default;
};

/// Whether a text means to be an address of a server.
bool is_url(std::string_view text);

/// Reads an address without user, query and fragment. Errors: kInvalidArgument.
Result<Url> parse_url(std::string_view text);

/// The same, or unix:PATH. Errors: kInvalidArgument.
Result<Url> parse_server(std::string_view text);

/// Where a server sends one that asked `from`: another path there, or an address. Errors:
/// kCorruptData for what is none, kUnsupported where it leads away from TLS, or without it to
/// another host.
Result<Url> redirected(const Url& from, std::string_view location);

}  // namespace stoker::catalogue
