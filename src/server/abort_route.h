// The route by which an administrator ends requests of others.
#pragma once

#include <string>
#include <string_view>

#include "server/server_context.h"

namespace stoker {

/// The most that the body of such a request may have.
constexpr size_t kMaxAbortBytes = size_t{256} << 10;

/// {"request_ids": [ids as answers have them or as X-Request-Id]} to {"aborted": number of requests
/// that were in the engine}. Errors: those of Json::parse, kInvalidArgument with field
/// "request_ids".
Result<std::string> abort_answer(const ServerContext& context, std::string_view body);

}  // namespace stoker
