// What stands behind a path in the target of a request, and escapes in both.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stoker {

/// With %XX as the byte; escapes that are not %XX stay as they are.
std::string decode_percent(std::string_view text);

/// The value of `name` in "name=value&name=value", decoded; of several the first. Nothing: it is
/// not there.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace stoker
