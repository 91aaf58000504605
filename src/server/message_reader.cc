// Reads `messages`: roles, text content, old reasoning. What the prompt format has beyond text is
// refused by name.
#include <algorithm>
#include <iterator>

#include "base/try.h"
#include "server/field_readers.h"

namespace stoker {
namespace {

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant",
                                       "latest_reminder"};
constexpr std::string_view kUnsupportedRoles[] = {"tool", "function"};

// Members of a message that change the prompt, and are not built. Their values that change nothing.
struct MessageMember {
  const char* name;
  bool (*is_neutral)(const Json& value);
};
constexpr MessageMember kUnsupportedMembers[] = {
    {"tool_calls", [](const Json& v) { return v.is_array() && v.items().empty(); }},
    {"function_call", [](const Json&) { return false; }},
    {"prefix", [](const Json& v) { return v.is_bool() && !v.as_bool(); }},
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
  if (contains(kUnsupportedRoles, name)) return not_supported(param, "the role " + name + " is");
  return Error{ErrorCode::kInvalidArgument,
               param + ": expected system, developer, user, assistant or latest_reminder, found " +
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
  return message;
}

}  // namespace

Result<void> read_messages(const Json& value, RequestDraft& draft) {
  if (!value.is_array() || value.items().empty()) {
    return wrong_value("messages", "an array of at least one message", value);
  }
  draft.chat.messages.clear();
  for (size_t i = 0; i < value.items().size(); ++i) {
    TRY_ASSIGN(Message message,
               read_message(value.items()[i], "messages[" + std::to_string(i) + "]"));
    draft.chat.messages.push_back(std::move(message));
  }
  return {};
}

}  // namespace stoker
