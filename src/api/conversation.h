// Conversations of the door to prompts: their parts to the chat room's, JSON texts read.
#pragma once

#include "api/resolve.h"
#include "chat/chat.h"
#include "stoker/request.h"
#include "stoker/result.h"

namespace stoker {

/// Moves the prompt's parts out. Errors: those of chat::Encoder::encode; kInvalidArgument for
/// parameters of a tool that are no JSON; kUnsupported for a call that is required behind
/// reasoning.
Result<EncodedPrompt> encode_chat(ChatPrompt& prompt, const chat::Encoder& encoder);

}  // namespace stoker
