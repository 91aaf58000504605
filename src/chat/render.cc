#include "chat/render.h"

#include <string_view>
#include <utility>

#include "base/try.h"
#include "chat/calls.h"
#include "chat/python_json.h"
#include "chat/tool_block.h"
#include "chat/turns.h"

namespace stoker::chat {
namespace {

constexpr std::string_view kResponseFormatHead =
    "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

// What the template needs beside the turns. Borrows the conversation.
struct Setting {
  const Conversation* conversation;
  Thinking thinking;
  std::vector<const Tool*> tools;
  bool continues;

  bool shows_format() const {
    const ResponseFormat& format = conversation->response_format;
    return format.kind != ResponseFormat::Kind::kText && format.is_shown;
  }

  // Old reasoning stays in every turn.
  bool keeps_reasoning() const {
    return thinking.enabled && (conversation->keep_reasoning || !tools.empty());
  }

  // The prompt opens the block, so that the reply can only be calls.
  bool opens_calls() const {
    const ToolChoice::Kind kind = conversation->tool_choice.kind;
    return !thinking.enabled && !continues &&
           (kind == ToolChoice::Kind::kRequired || kind == ToolChoice::Kind::kNamed);
  }
};

std::string effort_line(int32_t effort) {
  return "Reasoning Effort: " + std::to_string(effort) +
         " (range 1-100, the higher the value, the more thorough the reasoning)\n\n";
}

// The tools and the response format stand in the first system message, or in one of their own.
void write_attached(Writer& out, const Setting& setting) {
  if (!setting.tools.empty()) {
    out.text(kBlockSeparator);
    write_tool_block(out, setting.tools);
  }
  if (!setting.shows_format()) return;
  out.text(kBlockSeparator);
  out.text(kResponseFormatHead);
  const ResponseFormat& format = setting.conversation->response_format;
  std::string schema;
  if (format.kind == ResponseFormat::Kind::kJsonObject) {
    schema = R"({"type": "json_object"})";
  } else {
    append_python_json(schema, format.schema);
  }
  out.text(schema);
}

// Up to the turns that are neither system messages nor empty: the effort, the first system message
// and what is attached to it. Returns how many turns that took.
size_t write_head(Writer& out, const std::vector<Turn>& turns, const Setting& setting) {
  const bool has_system = !turns.empty() && turns.front().role == Role::kSystem;
  const bool is_attached = !setting.tools.empty() || setting.shows_format();
  const bool has_effort = setting.thinking.enabled && (!turns.empty() || is_attached);
  if (has_system || is_attached || has_effort) out.control(Control::kSystem);
  if (has_effort) out.text(effort_line(setting.thinking.effort));
  if (has_system) out.blocks(turns.front().parts[0].message->content);
  write_attached(out, setting);
  return has_system ? 1 : 0;
}

void write_user(Writer& out, const std::vector<Part>& parts) {
  out.control(Control::kUser);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.text(kBlockSeparator);
    if (parts[i].is_result) out.text("<tool_result>");
    out.blocks(parts[i].message->content);
    if (parts[i].is_result) out.text("</tool_result>");
  }
}

// Where the reply goes on in a message.
ReplyStart continued_start(const Message& message, const Thinking& thinking) {
  if (has_content(message) || !message.tool_calls.empty()) return ReplyStart::kContent;
  if (!thinking.enabled) return ReplyStart::kContentLead;
  return message.reasoning_content.empty() ? ReplyStart::kReasoningLead : ReplyStart::kReasoning;
}

bool is_reasoning(ReplyStart start) {
  return start == ReplyStart::kReasoningLead || start == ReplyStart::kReasoning;
}

void write_assistant(Writer& out, const Message& message, const Setting& setting,
                     bool is_continued) {
  out.control(Control::kAssistant);
  if (setting.keeps_reasoning() || (setting.thinking.enabled && is_continued)) {
    out.control(Control::kThink);
    const size_t begin = out.size();
    out.text(message.reasoning_content);
    out.mark_grounding(begin);
  }
  if (is_continued && is_reasoning(continued_start(message, setting.thinking))) return;
  out.control(Control::kEndOfThink);
  const size_t begin = out.size();
  out.blocks(message.content);
  out.mark_grounding(begin);
  if (!message.tool_calls.empty()) write_calls(out, message.tool_calls);
  if (!is_continued) out.control(Control::kEndOfText);
}

void write_turn(Writer& out, const Turn& turn, const Setting& setting, bool is_continued) {
  const Message& message = *turn.parts[0].message;
  switch (turn.role) {
    case Role::kSystem:
      out.control(Control::kSystem);
      out.blocks(message.content);
      break;
    case Role::kUser:
    case Role::kTool:
      write_user(out, turn.parts);
      break;
    case Role::kAssistant:
      write_assistant(out, message, setting, is_continued);
      break;
    case Role::kLatestReminder:
      out.control(Control::kLatestReminder);
      out.blocks(message.content);
      break;
  }
}

// Opens the reply, and returns how it begins.
ReplyStart write_reply_header(Writer& out, const Setting& setting) {
  out.control(Control::kAssistant);
  out.control(setting.thinking.enabled ? Control::kThink : Control::kEndOfThink);
  if (setting.thinking.enabled) return ReplyStart::kReasoningLead;
  if (!setting.opens_calls()) return ReplyStart::kContentLead;
  write_calls_opening(out);
  return ReplyStart::kCalls;
}

size_t content_bytes(const Message& message) {
  size_t total = message.reasoning_content.size();
  for (const Block& block : message.content) {
    const auto* text = std::get_if<std::string>(&block);
    total += kBlockSeparator.size() +
             (text != nullptr ? text->size() : spelling(Control::kImage).size());
  }
  for (const ToolCall& call : message.tool_calls) {
    constexpr size_t kTagBytes = 128;
    total += kTagBytes + call.name.size() + call.arguments.size();
  }
  return total;
}

// About what the prompt takes, so that the text is seldom moved while it grows.
size_t expected_bytes(const std::vector<Turn>& turns) {
  constexpr size_t kHeadBytes = 256;
  constexpr size_t kPartBytes = 64;
  size_t total = kHeadBytes;
  for (const Turn& turn : turns) {
    for (const Part& part : turn.parts) total += kPartBytes + content_bytes(*part.message);
  }
  return total;
}

}  // namespace

Result<Rendered> render(const Conversation& conversation) {
  TRY_ASSIGN(const std::vector<Turn> turns, turns_of(conversation));
  Setting setting{&conversation, {}, {}, continues_last(conversation)};
  TRY_ASSIGN(setting.thinking,
             resolve_thinking(conversation.thinking, conversation.reasoning_effort));
  TRY_ASSIGN(setting.tools, shown_tools(conversation));
  Writer out(expected_bytes(turns));
  out.control(Control::kBeginOfText);
  for (size_t i = write_head(out, turns, setting); i < turns.size(); ++i) {
    write_turn(out, turns[i], setting, setting.continues && i + 1 == turns.size());
  }
  const ReplyStart start = setting.continues
                               ? continued_start(conversation.messages.back(), setting.thinking)
                               : write_reply_header(out, setting);
  return Rendered{out.take_text(), out.take_marks(),      out.take_images(), setting.thinking,
                  start,           !setting.tools.empty()};
}

}  // namespace stoker::chat
