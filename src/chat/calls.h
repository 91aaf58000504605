// Calls of earlier answers in the prompt, in the markup in which the model wrote them.
#pragma once

#include <vector>

#include "chat/conversation.h"
#include "chat/writer.h"

namespace stoker::chat {

/// Opens a block of calls; write_calls writes a whole one.
void write_calls_opening(Writer& out);

/// Writes the block with the line feeds in front of it. Arguments that are the JSON of an object,
/// or the JSON of a string that is such JSON, become one parameter for each member; any other text
/// becomes one parameter `arguments`. Nothing is escaped: the format has no escapes.
void write_calls(Writer& out, const std::vector<ToolCall>& calls);

}  // namespace stoker::chat
