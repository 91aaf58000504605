// Reads `messages` and text blocks of Anthropic's interface: the blocks of a message become
// messages of the door. A tool's result is one of its own there; thinking and calls are members of
// the assistant's.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/try.h"
#include "server/anthropic_reader.h"
#include "server/field_readers.h"

namespace stoker {
namespace {

// Types of blocks that the interface knows, and that are not built.
constexpr std::string_view kUnsupportedBlocks[] = {
    "image",
    "document",
    "search_result",
    "tool_reference",
    "container_upload",
    "compaction",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
};

Error unexpected_block(const std::string& type, const std::string& expected,
                       const std::string& param) {
  const auto* end = std::end(kUnsupportedBlocks);
  if (std::find(std::begin(kUnsupportedBlocks), end, type) != end)
    return not_supported(param, "content of type " + type + " is");
  return {ErrorCode::kInvalidArgument,
          param + ".type: expected " + expected + ", found " + json_quote(type.substr(0, 40)),
          param + ".type"};
}

Result<std::string> type_of(const Json& block, const std::string& param) {
  if (!block.is_object()) return wrong_value(param, "an object", block);
  return required_string(block, "type", param);
}

// The model knows no member for it: it reads that the tool failed.
void mark_failed(std::vector<std::string>& content) {
  constexpr std::string_view kMark = "Error";
  if (content.empty()) content.emplace_back();
  std::string& text = content.front();
  if (text.compare(0, kMark.size(), kMark) == 0) return;
  text = std::string(kMark) + (text.empty() ? "" : ": ") + text;
}

Result<Message> read_result(const Json& block, const std::string& param) {
  Message message{"tool", {}};
  TRY_ASSIGN(message.tool_call_id, required_string(block, "tool_use_id", param));
  if (const Json* content = find_member(block, "content")) {
    TRY_ASSIGN(message.content, read_text_blocks(*content, param + ".content"));
  }
  TRY_ASSIGN(const auto is_error, optional_bool(block, "is_error", param));
  if (is_error.value_or(false)) mark_failed(message.content);
  return message;
}

// Texts that follow each other are one message.
Result<void> read_user_blocks(const Json& content, const std::string& param,
                              std::vector<Message>& out) {
  bool is_open = false;
  for (size_t i = 0; i < content.items().size(); ++i) {
    const Json& block = content.items()[i];
    const std::string place = item_of(param, i);
    TRY_ASSIGN(const std::string type, type_of(block, place));
    if (type == "text") {
      TRY_ASSIGN(std::string text, required_string(block, "text", place));
      if (!std::exchange(is_open, true)) out.push_back({"user", {}});
      out.back().content.push_back(std::move(text));
    } else if (type == "tool_result") {
      TRY_ASSIGN(Message result, read_result(block, place));
      out.push_back(std::move(result));
      is_open = false;
    } else {
      return unexpected_block(type, "text or tool_result", place);
    }
  }
  if (content.items().empty()) out.push_back({"user", {}});  // says nothing, and is a turn
  return {};
}

Result<ToolCall> read_use(const Json& block, const std::string& param) {
  ToolCall call;
  TRY_ASSIGN(call.id, required_string(block, "id", param));
  TRY_ASSIGN(call.name, required_string(block, "name", param));
  TRY_ASSIGN(const Json* input, required_object(block, "input", param));
  call.arguments = input->dump();
  return call;
}

Result<void> read_assistant_block(const Json& block, const std::string& param, Message& message) {
  TRY_ASSIGN(const std::string type, type_of(block, param));
  if (type == "text") {
    TRY_ASSIGN(std::string text, required_string(block, "text", param));
    if (!text.empty()) message.content.push_back(std::move(text));
  } else if (type == "thinking") {
    TRY_ASSIGN(const std::string thinking, required_string(block, "thinking", param));
    add_reasoning(thinking, message);
  } else if (type == "tool_use") {
    TRY_ASSIGN(ToolCall call, read_use(block, param));
    message.tool_calls.push_back(std::move(call));
  } else if (type != "redacted_thinking") {  // nobody here can read that
    return unexpected_block(type, "text, thinking, redacted_thinking or tool_use", param);
  }
  return {};
}

// Messages of the assistant that follow each other are one turn.
Result<void> read_assistant_blocks(const Json& content, const std::string& param,
                                   std::vector<Message>& out) {
  Message& turn = assistant_turn(out);
  if (!content.as_string().empty()) turn.content.push_back(content.as_string());
  for (size_t i = 0; i < content.items().size(); ++i) {
    if (auto read = read_assistant_block(content.items()[i], item_of(param, i), turn); !read)
      return read;
  }
  return {};
}

Result<void> read_turn(const std::string& role, const Json& content, const std::string& param,
                       std::vector<Message>& out) {
  if (role == "system") {
    TRY_ASSIGN(auto texts, read_text_blocks(content, param));
    out.push_back({role, std::move(texts)});
    return {};
  }
  if (!content.is_string() && !content.is_array())
    return wrong_value(param, "a string or an array of blocks", content);
  if (role == "assistant") return read_assistant_blocks(content, param, out);
  if (content.is_array()) return read_user_blocks(content, param, out);
  out.push_back({role, {content.as_string()}});
  return {};
}

Result<void> read_anthropic_message(const Json& json, const std::string& param,
                                    std::vector<Message>& out) {
  if (!json.is_object()) return wrong_value(param, "an object", json);
  TRY_ASSIGN(const std::string role, required_string(json, "role", param));
  if (role != "user" && role != "assistant" && role != "system") {
    return Error{ErrorCode::kInvalidArgument,
                 param + ".role: expected user, assistant or system, found " +
                     json_quote(role.substr(0, 40)),
                 param + ".role"};
  }
  const Json* content = json.find("content");
  return read_turn(role, content == nullptr ? Json() : *content, param + ".content", out);
}

}  // namespace

Result<std::vector<std::string>> read_text_blocks(const Json& value, const std::string& param) {
  if (value.is_string()) return std::vector<std::string>{value.as_string()};
  if (!value.is_array()) return wrong_value(param, "a string or an array of blocks", value);
  std::vector<std::string> texts;
  for (size_t i = 0; i < value.items().size(); ++i) {
    const std::string place = item_of(param, i);
    TRY_ASSIGN(const std::string type, type_of(value.items()[i], place));
    if (type != "text") return unexpected_block(type, "text", place);
    TRY_ASSIGN(std::string text, required_string(value.items()[i], "text", place));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<void> read_anthropic_messages(const Json& value, RequestDraft& draft) {
  if (!value.is_array() || value.items().empty())
    return wrong_value("messages", "an array of at least one message", value);
  std::vector<Message>& messages = draft.chat.messages;
  messages.clear();
  for (size_t i = 0; i < value.items().size(); ++i) {
    if (auto read = read_anthropic_message(value.items()[i], item_of("messages", i), messages);
        !read) {
      return read;
    }
  }
  // The answer goes on with text that the assistant has begun. Calls have nothing to go on with.
  const Message& last = messages.back();
  draft.chat.continue_last = last.role == "assistant" && last.tool_calls.empty();
  return {};
}

}  // namespace stoker
