// What a misspelt name was probably meant to be.
#pragma once

#include <span>
#include <string_view>

namespace stoker {

/// Of the names, at least one, that which takes the fewest letters to be added, removed or
/// replaced; of equal ones the first. O(length^2) for each: callers bound the length.
std::string_view nearest_name(std::string_view found, std::span<const std::string_view> names);

}  // namespace stoker
