// A request to a running server of ours, and its answer.
#pragma once

#include <chrono>
#include <string>

#include "stoker/result.h"

namespace stoker::catalogue {

/// What a server answered. A plain value.
struct HttpAnswer {
  int status = 0;
  std::string body;  ///< at most kMaxAnswerBytes
};

constexpr size_t kMaxAnswerBytes = size_t{1} << 20;

/// Posts JSON to `path` ("/admin/snapshot") of a server and waits for its answer, for at most
/// `limit`. `server`: http://..., https://..., or unix:PATH; `key`: for "Authorization: Bearer", ""
/// for none. Redirects are not followed: the key is for this server. Errors: kInvalidArgument for
/// an address that is none, kPeerLost, kIo for a certificate that cannot be trusted, kCorruptData
/// for a longer answer.
Result<HttpAnswer> post_json(const std::string& server, const std::string& path,
                             const std::string& key, const std::string& body,
                             std::chrono::milliseconds limit);

}  // namespace stoker::catalogue
