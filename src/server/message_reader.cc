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

// Members of a message that change the prompt, and are not built. Their values that change nothing.
struct MessageMember {
  const char* name;
  bool (*is_neutral)(const Json& value);
};
constexpr MessageMember kUnsupportedMembers[] = {
    {"function_call", [](const Json&) { return false; }},
    {"task", [](const Json&) { return false; }},
};

constexpr std::string_view kUnsupportedParts[] = {
    "image_url", "image",     "input_image", "input_audio", "audio_url",
    "audio",     "video_url", "video",       "input_video", "file"};

template <class List>
bool contains(const List& list, std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

Result<std::string> read_role(const Json& message, const std::string& param) {
  const Json* role = message.find("role");
  if (role == nullptr || !role->is_string()) {
    return wrong_value(param, "a string", role == nullptr ? Json() : *role);
  }
  const std::string& name = role->as_string();
  if (contains(kRoles, name)) return name;
  return Error{ErrorCode::kInvalidArgument,
               param +
                   ": expected system, developer, user, assistant, tool or latest_reminder, "
                   "found " +
                   json_quote(name.substr(0, 40)),
               param};
}

Result<std::string> read_part(const Json& part, const std::string& param) {
  if (!part.is_object()) return wrong_value(param, "an object", part);
  const Json* type = part.find("type");
  if (type == nullptr || !type->is_string()) {
    return wrong_value(param + ".type", "a string", type == nullptr ? Json() : *type);
  }
  const std::string& name = type->as_string();
  if (contains(kUnsupportedParts, name))
    return not_supported(param, "content of type " + name + " is");
  if (name != "text") {
    return Error{ErrorCode::kInvalidArgument,
                 param + ".type: expected text, found " + json_quote(name.substr(0, 40)), param};
  }
  const Json* text = part.find("text");
  if (text == nullptr || !text->is_string()) {
    return wrong_value(param + ".text", "a string", text == nullptr ? Json() : *text);
  }
  return text->as_string();
}

Result<std::vector<std::string>> read_content(const Json& message, const std::string& param) {
  const Json* content = message.find("content");
  std::vector<std::string> blocks;
  if (content == nullptr || content->is_null()) return blocks;
  if (content->is_string()) return std::vector<std::string>{content->as_string()};
  if (!content->is_array()) return wrong_value(param, "a string or an array of parts", *content);
  for (size_t i = 0; i < content->items().size(); ++i) {
    TRY_ASSIGN(std::string text,
               read_part(content->items()[i], param + "[" + std::to_string(i) + "]"));
    blocks.push_back(std::move(text));
  }
  return blocks;
}

// reasoning_content, or its newer name reasoning.
Result<std::string> read_reasoning(const Json& message, const std::string& param) {
  std::string text;
  for (const char* name : {"reasoning", "reasoning_content"}) {
    const Json* value = message.find(name);
    if (value == nullptr || value->is_null()) continue;
    if (!value->is_string()) return wrong_value(param + "." + name, "a string", *value);
    text = value->as_string();
  }
  return text;
}

// A call of an assistant's message. Arguments may be an object, which is what its text says.
Result<ToolCall> read_call(const Json& json, const std::string& param) {
  if (!json.is_object()) return wrong_value(param, "an object", json);
  ToolCall call;
  const Json* id = json.find("id");
  if (id != nullptr && !id->is_null()) {
    if (!id->is_string()) return wrong_value(param + ".id", "a string", *id);
    call.id = id->as_string();
  }
  const Json* function = json.find("function");
  if (function == nullptr || !function->is_object())
    return wrong_value(param + ".function", "an object", function == nullptr ? Json() : *function);
  const Json* name = function->find("name");
  if (name == nullptr || !name->is_string())
    return wrong_value(param + ".function.name", "a string", name == nullptr ? Json() : *name);
  call.name = name->as_string();
  const Json* arguments = function->find("arguments");
  if (arguments == nullptr || arguments->is_null()) return call;
  if (!arguments->is_string() && !arguments->is_object())
    return wrong_value(param + ".function.arguments", "a string of JSON", *arguments);
  call.arguments = arguments->is_string() ? arguments->as_string() : arguments->dump();
  return call;
}

Result<std::vector<ToolCall>> read_calls(const Json& message, const std::string& param) {
  std::vector<ToolCall> calls;
  const Json* value = message.find("tool_calls");
  if (value == nullptr || value->is_null()) return calls;
  if (!value->is_array()) return wrong_value(param, "an array of calls", *value);
  for (size_t i = 0; i < value->items().size(); ++i) {
    TRY_ASSIGN(ToolCall call, read_call(value->items()[i], param + "[" + std::to_string(i) + "]"));
    calls.push_back(std::move(call));
  }
  return calls;
}

Result<std::string> read_call_id(const Json& message, const std::string& param) {
  const Json* id = message.find("tool_call_id");
  if (id == nullptr || id->is_null()) return std::string();
  if (!id->is_string()) return wrong_value(param, "a string", *id);
  return id->as_string();
}

// Whether the answer goes on with this message.
Result<bool> read_prefix(const Json& message, bool is_last, const std::string& param) {
  const Json* prefix = message.find("prefix");
  if (prefix == nullptr || prefix->is_null()) return false;
  if (!prefix->is_bool()) return wrong_value(param, "a boolean", *prefix);
  if (prefix->as_bool() && !is_last)
    return wrong_value(param, "false, since this is not the last message", *prefix);
  return prefix->as_bool();
}

Result<Message> read_message(const Json& json, const std::string& param) {
  if (!json.is_object()) return wrong_value(param, "an object", json);
  Message message;
  TRY_ASSIGN(message.role, read_role(json, param + ".role"));
  for (const MessageMember& member : kUnsupportedMembers) {
    const Json* value = json.find(member.name);
    if (value == nullptr || value->is_null() || member.is_neutral(*value)) continue;
    return not_supported(param + "." + member.name, "this member of a message is");
  }
  TRY_ASSIGN(message.content, read_content(json, param + ".content"));
  TRY_ASSIGN(message.reasoning_content, read_reasoning(json, param));
  TRY_ASSIGN(message.tool_calls, read_calls(json, param + ".tool_calls"));
  TRY_ASSIGN(message.tool_call_id, read_call_id(json, param + ".tool_call_id"));
  return message;
}

}  // namespace

Result<void> read_messages(const Json& value, RequestDraft& draft) {
  if (!value.is_array() || value.items().empty()) {
    return wrong_value("messages", "an array of at least one message", value);
  }
  draft.chat.messages.clear();
  for (size_t i = 0; i < value.items().size(); ++i) {
    const std::string param = "messages[" + std::to_string(i) + "]";
    const Json& json = value.items()[i];
    TRY_ASSIGN(Message message, read_message(json, param));
    TRY_ASSIGN(draft.chat.continue_last,
               read_prefix(json, i + 1 == value.items().size(), param + ".prefix"));
    draft.chat.messages.push_back(std::move(message));
  }
  return {};
}

}  // namespace stoker
