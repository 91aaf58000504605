// What is to be answered: the messages, and how hard to think. Plain values; no JSON, no ids.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace stoker::chat {

/// One message as the caller sent it.
struct Message {
  std::string role;                  ///< system, developer, user, assistant or latest_reminder
  std::vector<std::string> content;  ///< text blocks, UTF-8; none is the same as an empty one
  std::string reasoning_content;     ///< of an assistant message; of other roles not read
};

struct Conversation {
  std::vector<Message> messages;
  std::optional<std::string> thinking;          ///< "enabled", "disabled" or "adaptive"
  std::optional<std::string> reasoning_effort;  ///< a name, or an integer in decimal
  /// Old reasoning stays in the prompt, as it does when tools are attached. Without thinking it
  /// never does.
  bool keep_reasoning = false;
};

}  // namespace stoker::chat
