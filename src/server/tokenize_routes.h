// /tokenize and /detokenize: prompts to ids and back, as requests with them would be read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stoker/engine.h"
#include "stoker/result.h"

namespace stoker {

/// The answer to {"prompt": text} or {"messages": [...]}, with the members of the completion routes
/// that say how a prompt is made, and "return_token_strs". Errors: those of parse_request and
/// Engine::encode; kInvalidArgument for several prompts. Any thread.
Result<std::string> tokenize_answer(const Engine& engine, std::string_view body,
                                    const std::vector<std::string>& model_names);

/// The answer to {"tokens": [id]}. Errors: kInvalidArgument, kUnsupported, kNotFound for another
/// model. Any thread.
Result<std::string> detokenize_answer(const Engine& engine, std::string_view body,
                                      const std::vector<std::string>& model_names);

}  // namespace stoker
