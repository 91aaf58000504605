// Text to token ids and back, with a model's tokenizer and none of its weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/result.h"

namespace stoker {

/// The ids of a text as TextPrompt has them: control tokens by their spelling, no BOS, ill-formed
/// UTF-8 as U+FFFD. `model` as for Engine::open. Errors: kNotFound (no model, or no tokenizer in
/// it), kIo, kCorruptData, kUnsupported.
Result<std::vector<int32_t>> tokenize(const std::string& model, std::string_view text);

/// The text of ids, special tokens included; ill-formed UTF-8 in it becomes U+FFFD. Errors: as
/// tokenize, and kInvalidArgument for an id outside the tokenizer.
Result<std::string> detokenize(const std::string& model, const std::vector<int32_t>& ids);

}  // namespace stoker
