// /tokenize, /detokenize and Anthropic's count_tokens: prompts to ids and back, or to their number,
// as requests with them would be read.
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

/// The answer to a body of /v1/messages: {"input_tokens": n}. Errors: those of parse_request and
/// Engine::encode. Any thread.
Result<std::string> count_tokens_answer(const Engine& engine, std::string_view body,
                                        const std::vector<std::string>& model_names);

}  // namespace stoker
