// Paths and methods: which answer to give, and what can be refused by the head of a request alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_error.h"
#include "server/http_parser.h"
#include "stoker/engine.h"

namespace stoker {

enum class Target { kUnknown, kHealth, kModels, kModel, kCompletions, kChat };

/// What the path of a request means.
Target target_of(std::string_view path);

/// The methods of a target, as the Allow header has them; for kUnknown, all there are.
const char* allowed_methods(Target target);

/// What is wrong with a request, as far as its head tells: path, method, media type. OPTIONS passes
/// everywhere.
std::optional<HttpError> check_head(const HttpRequest& request);

/// {"object": "list", "data": [card of each served name]}.
std::string models_json(const ModelInfo& model, const std::vector<std::string>& names,
                        int64_t created);

/// The card of the model that "/v1/models/{id}" names, or nothing. The id may have slashes and
/// percent escapes.
std::optional<std::string> model_json(const ModelInfo& model, const std::vector<std::string>& names,
                                      int64_t created, std::string_view path);

}  // namespace stoker
