// Reads `messages`: roles, text content, old reasoning, calls and their results. What the prompt
// format has beyond that is refused by name.
#include <algorithm>
#include <iterator>

#include "base/try.h"
#include "server/field_readers.h"

namespace stoker {
namespace {

constexpr std::string_view kRoles[] = {"system", "developer", "user",           "assistant",
                                       "tool",   "function",  "latest_reminder"};

// Members of a message that change the prompt, and are not built.
constexpr const char* kUnsupportedMembers[] = {"function_call", "task"};

constexpr std::string_view kUnsupportedParts[] = {
    "image_url", "image",     "input_image", "input_audio", "audio_url",
    "audio",     "video_url", "video",       "input_video", "file"};

Result<std::string> read_role(const Json& message, const std::string& param) {
  TRY_ASSIGN(std::string name, required_string(message, "role", param));
  if (is_among(kRoles, name)) return name;
  return Error{ErrorCode::kInvalidArgument,
               param +
                   ".role: expected system, developer, user, assistant, tool or latest_reminder, "
                   "found " +
                   json_quote(name.substr(0, 40)),
               param + ".role"};
}

Result<std::string> read_part(const Json& part, const std::string& param) {
  if (!part.is_object()) return wrong_value(param, "an object", part);
  TRY_ASSIGN(const std::string name, required_string(part, "type", param));
  if (is_among(kUnsupportedParts, name))
    return not_supported(param, "content of type " + name + " is");
  if (name != "text") {
    return Error{ErrorCode::kInvalidArgument,
                 param + ".type: expected text, found " + json_quote(name.substr(0, 40)), param};
  }
  return required_string(part, "text", param);
}

Result<std::vector<std::string>> read_content(const Json& message, const std::string& param) {
  const Json* content = find_member(message, "content");
  std::vector<std::string> blocks;
  if (content == nullptr) return blocks;
  if (content->is_string()) return std::vector<std::string>{content->as_string()};
  if (!content->is_array()) return wrong_value(param, "a string or an array of parts", *content);
  for (size_t i = 0; i < content->items().size(); ++i) {
    TRY_ASSIGN(std::string text, read_part(content->items()[i], item_of(param, i)));
    blocks.push_back(std::move(text));
  }
  return blocks;
}

// reasoning_content, or its newer name reasoning.
Result<std::string> read_reasoning(const Json& message, const std::string& param) {
  std::string text;
  for (const char* name : {"reasoning", "reasoning_content"}) {
    TRY_ASSIGN(auto value, optional_string(message, name, param));
    if (value) text = *std::move(value);
  }
  return text;
}

// A call of an assistant's message. Arguments may be an object, which is what its text says.
Result<ToolCall> read_call(const Json& json, const std::string& param) {
  if (!json.is_object()) return wrong_value(param, "an object", json);
  ToolCall call;
  TRY_ASSIGN(auto id, optional_string(json, "id", param));
  call.id = std::move(id).value_or("");
  TRY_ASSIGN(const Json* function, required_object(json, "function", param));
  const std::string place = param + ".function";
  TRY_ASSIGN(call.name, required_string(*function, "name", place));
  const Json* arguments = find_member(*function, "arguments");
  if (arguments == nullptr) return call;
  if (!arguments->is_string() && !arguments->is_object())
    return wrong_value(place + ".arguments", "a string of JSON", *arguments);
  call.arguments = arguments->is_string() ? arguments->as_string() : arguments->dump();
  return call;
}

Result<std::vector<ToolCall>> read_calls(const Json& message, const std::string& param) {
  std::vector<ToolCall> calls;
  const Json* value = find_member(message, "tool_calls");
  if (value == nullptr) return calls;
  if (!value->is_array()) return wrong_value(param, "an array of calls", *value);
  for (size_t i = 0; i < value->items().size(); ++i) {
    TRY_ASSIGN(ToolCall call, read_call(value->items()[i], item_of(param, i)));
    calls.push_back(std::move(call));
  }
  return calls;
}

// Whether the answer goes on with this message.
Result<bool> read_prefix(const Json& message, bool is_last, const std::string& param) {
  TRY_ASSIGN(const auto prefix, optional_bool(message, "prefix", param));
  if (!prefix.value_or(false) || is_last) return prefix.value_or(false);
  return wrong_value(param + ".prefix", "false, since this is not the last message",
                     Json::boolean(true));
}

Result<Message> read_message(const Json& json, const std::string& param) {
  if (!json.is_object()) return wrong_value(param, "an object", json);
  Message message;
  TRY_ASSIGN(message.role, read_role(json, param));
  for (const char* member : kUnsupportedMembers) {
    if (find_member(json, member) != nullptr)
      return not_supported(param + "." + member, "this member of a message is");
  }
  TRY_ASSIGN(message.content, read_content(json, param + ".content"));
  TRY_ASSIGN(message.reasoning_content, read_reasoning(json, param));
  TRY_ASSIGN(message.tool_calls, read_calls(json, param + ".tool_calls"));
  TRY_ASSIGN(auto call_id, optional_string(json, "tool_call_id", param));
  message.tool_call_id = std::move(call_id).value_or("");
  return message;
}

}  // namespace

Message& assistant_turn(std::vector<Message>& messages) {
  if (messages.empty() || messages.back().role != "assistant")
    messages.push_back({"assistant", {}});
  return messages.back();
}

void add_reasoning(const std::string& text, Message& turn) {
  if (!text.empty() && !turn.reasoning_content.empty()) turn.reasoning_content += "\n\n";
  turn.reasoning_content += text;
}

Result<void> read_messages(const Json& value, RequestDraft& draft) {
  if (!value.is_array() || value.items().empty()) {
    return wrong_value("messages", "an array of at least one message", value);
  }
  draft.chat.messages.clear();
  for (size_t i = 0; i < value.items().size(); ++i) {
    const std::string param = item_of("messages", i);
    const Json& json = value.items()[i];
    TRY_ASSIGN(Message message, read_message(json, param));
    TRY_ASSIGN(draft.chat.continue_last, read_prefix(json, i + 1 == value.items().size(), param));
    draft.chat.messages.push_back(std::move(message));
  }
  return {};
}

}  // namespace stoker
