// What the workers make of the body of a request for the engine.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_error.h"
#include "server/request_parser.h"
#include "server/routes.h"
#include "server/server_context.h"
#include "stoker/engine.h"

namespace stoker {

/// An error; or the whole body of an answer, where no stream makes it; or running streams.
struct Prepared {
  std::optional<HttpError> error;
  std::optional<std::string> body;
  ParsedRequest parsed;
  std::vector<std::unique_ptr<Stream>> streams;  ///< of its requests; fewer once it is abandoned
};

/// On a worker's thread, with an engine attached: bytes to running streams, which call `ready` from
/// engine threads. Uses of the context what is for workers. Throws nothing.
Prepared prepare(const ServerContext& context, Target target, const std::string& body,
                 const std::atomic<bool>& abandoned, const std::function<void()>& ready);

}  // namespace stoker
