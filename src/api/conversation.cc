#include "api/conversation.h"

#include <iterator>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/try.h"

namespace stoker {
namespace {

chat::Message message_of(Message& message) {
  chat::Message out{std::move(message.role),
                    {std::make_move_iterator(message.content.begin()),
                     std::make_move_iterator(message.content.end())},
                    std::move(message.reasoning_content)};
  for (ToolCall& call : message.tool_calls)
    out.tool_calls.push_back({std::move(call.id), std::move(call.name), std::move(call.arguments)});
  out.tool_call_id = std::move(message.tool_call_id);
  return out;
}

Result<chat::Tool> tool_of(Tool& tool, const std::string& field) {
  chat::Tool out{std::move(tool.name), std::move(tool.description), {}, tool.strict};
  if (!tool.parameters) return out;
  auto schema = Json::parse(*tool.parameters);
  if (!schema) return invalid(field + ".parameters", schema.error().message);
  out.parameters = *std::move(schema);
  return out;
}

chat::ToolChoice choice_of(ToolChoice& choice) {
  constexpr chat::ToolChoice::Kind kKinds[] = {
      chat::ToolChoice::Kind::kAuto, chat::ToolChoice::Kind::kNone,
      chat::ToolChoice::Kind::kRequired, chat::ToolChoice::Kind::kNamed};
  return {kKinds[static_cast<size_t>(choice.kind)], std::move(choice.name)};
}

// What the prompt tells of it.
Result<chat::ResponseFormat> format_of(const Structure& structure) {
  chat::ResponseFormat format;
  if (!structure.is_shown) return format;
  if (structure.kind == Structure::Kind::kJsonObject)
    format.kind = chat::ResponseFormat::Kind::kJsonObject;
  if (structure.kind != Structure::Kind::kJsonSchema) return format;
  format.kind = chat::ResponseFormat::Kind::kJsonSchema;
  auto schema = Json::parse(structure.text);
  if (!schema) return invalid("response_format.json_schema.schema", schema.error().message);
  format.schema = *std::move(schema);
  return format;
}

ReplyStart start_of(chat::ReplyStart start) {
  switch (start) {
    case chat::ReplyStart::kReasoningLead:
      return ReplyStart::kThinking;
    case chat::ReplyStart::kReasoning:
      return ReplyStart::kOpenThinking;
    case chat::ReplyStart::kContentLead:
      return ReplyStart::kChat;
    case chat::ReplyStart::kContent:
      return ReplyStart::kOpenChat;
    case chat::ReplyStart::kCalls:
      break;
  }
  return ReplyStart::kCalls;
}

}  // namespace

Result<std::vector<chat::Tool>> tools_of(std::vector<Tool>& tools) {
  std::vector<chat::Tool> out;
  out.reserve(tools.size());
  for (size_t i = 0; i < tools.size(); ++i) {
    TRY_ASSIGN(chat::Tool tool, tool_of(tools[i], "tools[" + std::to_string(i) + "]"));
    out.push_back(std::move(tool));
  }
  return out;
}

Result<EncodedPrompt> encode_chat(ChatPrompt& prompt, const Structure& structure,
                                  const chat::Encoder& encoder) {
  chat::Conversation conversation;
  for (Message& message : prompt.messages) conversation.messages.push_back(message_of(message));
  TRY_ASSIGN(conversation.tools, tools_of(prompt.tools));
  const ToolChoice::Kind kind = prompt.tool_choice.kind;
  ReplyFormat reply;
  reply.one_call = !prompt.parallel_tool_calls;
  if (kind == ToolChoice::Kind::kNamed) reply.only_tool = prompt.tool_choice.name;
  conversation.thinking = std::move(prompt.thinking);
  conversation.reasoning_effort = std::move(prompt.reasoning_effort);
  conversation.keep_reasoning = prompt.keep_reasoning;
  conversation.tool_choice = choice_of(prompt.tool_choice);
  conversation.continue_last = prompt.continue_last;
  TRY_ASSIGN(conversation.response_format, format_of(structure));
  TRY_ASSIGN(chat::Prompt encoded, encoder.encode(conversation));
  reply.start = start_of(encoded.start);
  reply.has_calls = encoded.has_calls;
  if (!reply.has_calls) reply = ReplyFormat{reply.start};
  EncodedPrompt out{std::move(encoded.ids), "messages", std::move(reply)};
  if (!out.reply.has_calls) return out;
  out.must_call = kind == ToolChoice::Kind::kRequired || kind == ToolChoice::Kind::kNamed;
  for (chat::Tool& tool : conversation.tools) {
    if (out.reply.only_tool.empty() || tool.name == out.reply.only_tool)
      out.tools.push_back(std::move(tool));
  }
  return out;
}

}  // namespace stoker
