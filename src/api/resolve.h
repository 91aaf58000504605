// Requests of the door, checked and in tokens: parameters with their defaults, bans, stops. Errors
// name the field, what it takes and what was found.
#pragma once

#include <cstdint>
#include <string>

#include "api/loaded_model.h"
#include "chat/conversation.h"
#include "engine/token_stream.h"
#include "stoker/request.h"
#include "stoker/result.h"

namespace stoker {

/// A prompt in ids.
struct EncodedPrompt {
  std::vector<int32_t> ids;
  std::string field;       ///< of the request
  ReplyFormat reply = {};  ///< to it
  /// Tools whose calls the answer may have; with a call that must come, and JSON in a form that is
  /// asked for, their grammar is needed.
  std::vector<chat::Tool> tools = {};
  bool must_call = false;
};

/// Whether an answer is reasoning up to a token that ends it.
inline bool begins_with_reasoning(ReplyStart start) {
  return start == ReplyStart::kThinking || start == ReplyStart::kOpenThinking;
}

/// kInvalidArgument, as "field: message".
Error invalid(const std::string& field, const std::string& message);

/// The parameters, with the checkpoint's defaults for what they do not give.
SamplingParams with_defaults(SamplingParams asked, const SamplingParams& defaults);

/// Moves the prompt's parts out of the request. Errors: kInvalidArgument, kUnsupported.
Result<EncodedPrompt> encode_prompt(Request& request, const LoadedModel& model);

/// The request in tokens, but for its prompt, lengths, seed and deadline. Errors: kInvalidArgument
/// for what is out of range or contradicts itself, kUnsupported for texts without a tokenizer.
Result<engine::TokenRequest> resolve_request(const Request& request, const LoadedModel& model,
                                             bool use_priorities);

/// Leaves the last tokens of the prompt, as far as the request says. Errors: kInvalidArgument.
Result<void> truncate_prompt(const Request& request, const ModelInfo& info, EncodedPrompt& prompt);

/// Where reasoning is cut off, if it has a budget and the answer begins with some. Errors:
/// kInvalidArgument.
Result<void> resolve_thinking(const Request& request, const EncodedPrompt& prompt,
                              const LoadedModel& model, engine::TokenRequest& out);

/// How many tokens may be chosen, at most and at least. Errors: kInvalidArgument.
Result<void> resolve_lengths(const Request& request, const EncodedPrompt& prompt,
                             const ModelInfo& info, engine::TokenRequest& out);

}  // namespace stoker
