// The `format`s of strings that are held: expressions for the decoded text.
#pragma once

#include <string_view>

namespace stoker::grammar {

/// The expression (regex.h, the whole text) of a format; null for a name that has none: such a
/// format says something about a string and constrains nothing.
const char* format_expression(std::string_view name);

}  // namespace stoker::grammar
