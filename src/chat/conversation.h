// What is to be answered: the messages, the tools, in which form, and how hard to think. Plain
// values as the caller sent them, before any rule of the template; no ids.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"

namespace stoker::chat {

/// An image in a message. The prompt has a mark in its place; its data is the caller's.
struct Image {
  size_t index = 0;  ///< which of the caller's images
};

using Block = std::variant<std::string, Image>;  ///< text is UTF-8

/// A call that an assistant message made.
struct ToolCall {
  std::string id = {};
  std::string name = {};
  std::string arguments = {};  ///< as received: JSON of an object, or any other text
};

/// One message as the caller sent it.
struct Message {
  std::string role;  ///< system, developer, user, assistant, tool, function or latest_reminder
  std::vector<Block> content = {};        ///< none is the same as an empty text
  std::string reasoning_content = {};     ///< of an assistant message; of other roles not read
  std::vector<ToolCall> tool_calls = {};  ///< likewise
  std::string tool_call_id = {};          ///< of a tool's result: the call that it answers
  /// The reply goes on where this message ends; of the last message alone, an assistant's.
  bool prefix = false;
};

/// A function that the model may call.
struct Tool {
  std::string name;  ///< of letters, digits, `_` and `-`
  std::optional<std::string> description = {};
  std::optional<Json> parameters = {};  ///< a JSON schema
  bool strict = false;                  ///< its object schemas are completed: nothing optional
};

struct ToolChoice {
  enum class Kind { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name = {};  ///< of kNamed
};

struct ResponseFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  Json schema = {};      ///< of kJsonSchema
  bool is_shown = true;  ///< in the prompt; without it only a constraint on the tokens acts
};

struct Conversation {
  std::vector<Message> messages;
  std::optional<std::string> thinking = {};          ///< "enabled", "disabled" or "adaptive"
  std::optional<std::string> reasoning_effort = {};  ///< a name, or an integer in decimal
  /// Old reasoning stays in the prompt, as it does when tools are attached. Without thinking it
  /// never does.
  bool keep_reasoning = false;
  std::vector<Tool> tools = {};
  ToolChoice tool_choice = {};
  ResponseFormat response_format = {};
  bool continue_last = false;  ///< as Message::prefix of the last message
};

}  // namespace stoker::chat
