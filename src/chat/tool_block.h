// Tools in the prompt: which of them it shows, and the block that tells the model how to call them.
// The block's wording is what the model was trained on and is kept byte for byte.
#pragma once

#include <string_view>
#include <vector>

#include "chat/conversation.h"
#include "chat/writer.h"
#include "stoker/result.h"

namespace stoker::chat {

/// In front of the schemas, and behind them.
extern const std::string_view kToolBlockHead;
extern const std::string_view kToolBlockTail;

/// The tools that the prompt shows: none of them, the named one or all. Borrows the conversation.
/// Errors: kInvalidArgument with field "tools[1].function.name" for a name that is ill-formed or
/// there twice, and "tool_choice" where it names an unknown tool or demands a call without tools.
Result<std::vector<const Tool*>> shown_tools(const Conversation& conversation);

/// Writes the block for at least one tool.
void write_tool_block(Writer& out, const std::vector<const Tool*>& tools);

}  // namespace stoker::chat
