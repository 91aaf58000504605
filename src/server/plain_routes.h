// Routes that are answered at once, from what the server knows: probes, numbers, cards of models,
// switches of administrators.
#pragma once

#include <optional>
#include <string>

#include "server/http_error.h"
#include "server/http_parser.h"
#include "server/server_context.h"

namespace stoker {

/// What is answered. A plain value.
struct PlainAnswer {
  int status = 200;
  std::string body = {};
  const char* content_type = "application/json";
  std::optional<HttpError> error = {};  ///< then the rest is of no account
  int retry_after_s = 1;                ///< where is_worth_retrying(status)
};

/// The answer to a request that check_head passed and whose target does not take a body. The
/// server's thread.
PlainAnswer answer_plainly(ServerContext& context, const HttpRequest& request);

/// Why every new request is refused while the server stops, or nothing.
std::optional<HttpError> why_stopping(const ServerContext& context);

/// Why requests for the engine are refused now, or nothing.
std::optional<HttpError> why_not_served(const ServerContext& context);

}  // namespace stoker
