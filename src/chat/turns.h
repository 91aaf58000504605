// Messages to turns: roles understood, messages without effect left out, users and results of tools
// folded into turns of the user, results in the order of their calls.
#pragma once

#include <vector>

#include "chat/conversation.h"
#include "stoker/result.h"

namespace stoker::chat {

enum class Role { kSystem, kUser, kAssistant, kTool, kLatestReminder };

/// A message of a turn. Borrows the message.
struct Part {
  const Message* message = nullptr;
  bool is_result = false;  ///< of a tool
};

/// What is rendered under one header. The user's turns have one part or more, all others one.
struct Turn {
  Role role{};  ///< never kTool
  std::vector<Part> parts;
};

/// Errors: kInvalidArgument with field "messages", "messages[2].role", "messages[2].content" for an
/// image of the assistant, "messages[2].prefix" for one that is not on the last message.
Result<std::vector<Turn>> turns_of(const Conversation& conversation);

/// Whether a message has any text or image. Blocks are joined by a separator, so two empty ones are
/// not empty.
bool has_content(const Message& message);

/// Whether the reply goes on where the last message ends.
bool continues_last(const Conversation& conversation);

}  // namespace stoker::chat
