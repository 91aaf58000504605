// Conversations of the door to prompts: their parts to the chat room's, JSON texts read.
#pragma once

#include <vector>

#include "api/resolve.h"
#include "chat/chat.h"
#include "stoker/request.h"
#include "stoker/result.h"

namespace stoker {

/// Moves the prompt's parts out. Errors: those of chat::Encoder::encode; kInvalidArgument for
/// parameters of a tool, or a schema, that are no JSON.
Result<EncodedPrompt> encode_chat(ChatPrompt& prompt, const Structure& structure,
                                  const chat::Encoder& encoder);

/// Tools of the door. Error: kInvalidArgument as "tools[i].parameters" for what is no JSON.
Result<std::vector<chat::Tool>> tools_of(std::vector<Tool>& tools);

}  // namespace stoker
