// Text of HTTP's fields.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

/// Of ASCII letters.
std::string lower_case(std::string_view text);

/// Whether they differ in the case of ASCII letters at most.
bool equals_ignoring_case(std::string_view a, std::string_view b);

/// Without blanks and tabs around it.
std::string_view trim(std::string_view text);

}  // namespace stoker
