// Mistakes in complete calls that can be put right for clients that have seen nothing of them yet.
#pragma once

#include <string>

#include "base/json.h"

namespace stoker::chat {

/// The arguments of a call as ReplyParser gave them, without a wrapping that models add: where the
/// only key is `arguments` or `input`, the tool's parameters (a JSON schema) have no such property,
/// and the value is an object of properties that they have, the value. Else as they are.
std::string unwrapped_arguments(std::string arguments, const Json& parameters);

}  // namespace stoker::chat
