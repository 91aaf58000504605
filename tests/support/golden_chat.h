// tests/data/chat/golden_chat.json as values: requests in the form of the HTTP interface, and what
// the vendor's library makes of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "chat/conversation.h"
#include "chat/reply_start.h"

namespace stoker::testing {

using chat::Conversation;
using chat::Message;

inline constexpr size_t kMaxTestFileBytes = size_t{64} << 20;
inline constexpr size_t kNumGoldenChats = 75;
inline constexpr size_t kNumGoldenRejections = 22;

struct GoldenChat {
  std::string name;
  Conversation conversation;
  std::string rendered;
  // Code point ranges of `rendered` that are control tokens; empty: not told.
  std::vector<std::pair<int64_t, int64_t>> special = {};
  std::vector<int32_t> ids = {};          // of the released tokenizer
  std::optional<std::string> start = {};  // how the vendor's parser begins; none: not told
  std::optional<bool> has_calls = {};     // whether it looks for calls
};

struct GoldenRejection {
  std::string name;
  Conversation conversation;
};

inline std::string golden_text(const Json& object, std::string_view name) {
  const Json* value = object.find(name);
  return value == nullptr ? "" : value->as_string();
}

// Images are counted over the messages of a request.
inline std::vector<chat::Block> golden_content(const Json* content, size_t& num_images) {
  std::vector<chat::Block> blocks;
  if (content == nullptr || content->is_null()) return blocks;
  if (content->is_string()) return {content->as_string()};
  for (const Json& block : content->items()) {
    const Json* text = block.find("text");
    if (text != nullptr) {
      blocks.emplace_back(text->as_string());
    } else {
      blocks.emplace_back(chat::Image{num_images++});
    }
  }
  return blocks;
}

inline Message golden_message(const Json& json, size_t& num_images) {
  Message message{golden_text(json, "role"), golden_content(json.find("content"), num_images),
                  golden_text(json, "reasoning_content")};
  message.tool_call_id = golden_text(json, "tool_call_id");
  if (const Json* prefix = json.find("prefix")) message.prefix = prefix->as_bool();
  const Json* calls = json.find("tool_calls");
  if (calls == nullptr) return message;
  for (const Json& call : calls->items()) {
    const Json& function = *call.find("function");
    message.tool_calls.push_back({golden_text(call, "id"), golden_text(function, "name"),
                                  golden_text(function, "arguments")});
  }
  return message;
}

inline chat::Tool golden_tool(const Json& function) {
  chat::Tool tool{golden_text(function, "name")};
  if (const Json* description = function.find("description")) {
    tool.description = description->as_string();
  }
  if (const Json* parameters = function.find("parameters")) tool.parameters = *parameters;
  if (const Json* strict = function.find("strict")) tool.strict = strict->as_bool();
  return tool;
}

inline chat::ToolChoice golden_tool_choice(const Json& choice) {
  using Kind = chat::ToolChoice::Kind;
  if (choice.is_object()) return {Kind::kNamed, golden_text(*choice.find("function"), "name")};
  if (choice.as_string() == "none") return {Kind::kNone};
  return {choice.as_string() == "required" ? Kind::kRequired : Kind::kAuto};
}

inline chat::ResponseFormat golden_format(const Json& format) {
  using Kind = chat::ResponseFormat::Kind;
  const std::string type = golden_text(format, "type");
  if (type == "json_object") return {Kind::kJsonObject};
  if (type != "json_schema") return {};
  return {Kind::kJsonSchema, *format.find("json_schema")->find("schema")};
}

inline Conversation golden_conversation(const Json& request) {
  Conversation conversation;
  size_t num_images = 0;
  for (const Json& json : request.find("messages")->items()) {
    conversation.messages.push_back(golden_message(json, num_images));
  }
  if (const Json* thinking = request.find("thinking")) {
    conversation.thinking = golden_text(*thinking, "type");
  }
  if (const Json* effort = request.find("reasoning_effort")) {
    conversation.reasoning_effort = effort->as_string();
  }
  if (const Json* tools = request.find("tools")) {
    for (const Json& tool : tools->items()) {
      conversation.tools.push_back(golden_tool(*tool.find("function")));
    }
  }
  if (const Json* choice = request.find("tool_choice")) {
    conversation.tool_choice = golden_tool_choice(*choice);
  }
  if (const Json* format = request.find("response_format")) {
    conversation.response_format = golden_format(*format);
  }
  return conversation;
}

// Null where the file cannot be read.
inline Json golden_json(const std::string& name) {
  const auto text = read_file(STOKER_SOURCE_DIR "/tests/data/chat/" + name, kMaxTestFileBytes);
  if (!text.has_value()) return {};
  auto json = Json::parse(*text);
  return json.has_value() ? *std::move(json) : Json();
}

inline GoldenChat golden_chat(const Json& json) {
  GoldenChat chat{golden_text(json, "name"), golden_conversation(*json.find("request")),
                  golden_text(json, "rendered")};
  for (const Json& id : json.find("ids")->items()) {
    chat.ids.push_back(static_cast<int32_t>(id.as_int().value_or(-1)));
  }
  if (const Json* special = json.find("special")) {
    for (const Json& range : special->items()) {
      chat.special.emplace_back(range.items()[0].as_int().value_or(-1),
                                range.items()[1].as_int().value_or(-1));
    }
  }
  if (const Json* start = json.find("parse_start")) chat.start = start->as_string();
  if (const Json* calls = json.find("parse_calls")) chat.has_calls = calls->as_bool();
  return chat;
}

// In the order of the file; none where it cannot be read.
inline std::vector<GoldenChat> golden_chats() {
  std::vector<GoldenChat> chats;
  const Json file = golden_json("golden_chat.json");
  const Json* all = file.find("conversations");
  if (all == nullptr) return chats;
  for (const Json& json : all->items()) chats.push_back(golden_chat(json));
  return chats;
}

// What the vendor's library refuses.
inline std::vector<GoldenRejection> golden_rejections() {
  std::vector<GoldenRejection> rejections;
  const Json file = golden_json("golden_chat.json");
  const Json* all = file.find("rejected");
  if (all == nullptr) return rejections;
  for (const Json& json : all->items()) {
    rejections.push_back({golden_text(json, "name"), golden_conversation(*json.find("request"))});
  }
  return rejections;
}

// By the names of the golden files.
inline chat::ReplyStart golden_start(std::string_view name) {
  if (name == "reasoning_lead") return chat::ReplyStart::kReasoningLead;
  if (name == "reasoning") return chat::ReplyStart::kReasoning;
  if (name == "content") return chat::ReplyStart::kContentLead;
  return name == "calls" ? chat::ReplyStart::kCalls : chat::ReplyStart::kContent;
}

}  // namespace stoker::testing
