// The OpenAPI document of the routes that a server has, made from the tables that requests are read
// by: routes, fields, statuses.
#pragma once

#include <string>

#include "server/routes.h"
#include "server/server.h"

namespace stoker {

/// OpenAPI 3.1, as JSON: every route that is there with these options, and every field that is
/// supported. What is refused is not told.
std::string openapi_json(const ServerOptions& options, const AccessRules& access);

}  // namespace stoker
