// Whether a reply begins with reasoning, and how thorough that is to be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stoker/result.h"

namespace stoker::chat {

struct Thinking {
  bool enabled = false;
  int32_t effort = 0;  ///< 1 to 100; 0 where not enabled. A hint in the prompt, no limit of tokens.
};

/// What the two request fields mean together. `thinking` "disabled" beats any effort; "enabled" and
/// "adaptive" beat the effort "none"; neither field given is effort 75. Both are checked, also
/// where the other one decides. Errors: kInvalidArgument with field "thinking" or
/// "reasoning_effort".
Result<Thinking> resolve_thinking(const std::optional<std::string>& thinking,
                                  const std::optional<std::string>& reasoning_effort);

}  // namespace stoker::chat
