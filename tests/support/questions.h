// Prompts as people put them to the demo model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/loaded_model.h"

namespace stoker::testing {

/// A user's message as the ids of a prompt; `model` has a tokenizer with the chat format.
std::vector<int32_t> question(const LoadedModel& model, const std::string& text);

/// What `count` words of its vocabulary mean, each another.
std::vector<std::vector<int32_t>> questions(const LoadedModel& model, int64_t count);

}  // namespace stoker::testing
