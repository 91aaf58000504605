// Reads `input` of /v1/responses: a text, or items that become messages of the door. Reasoning,
// messages and calls of the assistant that follow each other are one turn; what a call gave is a
// message of its own.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/try.h"
#include "server/field_readers.h"
#include "server/responses_reader.h"

namespace stoker {
namespace {

constexpr std::string_view kInputRoles[] = {"user", "assistant", "system", "developer"};

// Types of items that the interface knows, and that are not built.
constexpr std::string_view kUnsupportedItems[] = {
    "item_reference",          "additional_tools",
    "apply_patch_call",        "apply_patch_call_output",
    "code_interpreter_call",   "compaction",
    "compaction_trigger",      "computer_call",
    "computer_call_output",    "custom_tool_call",
    "custom_tool_call_output", "file_search_call",
    "image_generation_call",   "local_shell_call",
    "local_shell_call_output", "mcp_approval_request",
    "mcp_approval_response",   "mcp_call",
    "mcp_list_tools",          "program",
    "program_output",          "shell_call",
    "shell_call_output",       "tool_search_call",
    "tool_search_output",      "web_search_call",
};

constexpr std::string_view kUnsupportedContent[] = {"input_image", "input_file", "input_audio",
                                                    "input_video", "computer_screenshot"};

// Of each, the text is in a member "text", but for a refusal's.
constexpr std::string_view kMessageParts[] = {"input_text", "output_text", "text", "refusal"};
constexpr std::string_view kOutputParts[] = {"input_text", "text"};
constexpr std::string_view kReasoningParts[] = {"reasoning_text", "text"};
constexpr std::string_view kSummaryParts[] = {"summary_text", "text"};

Result<std::string> text_of_part(const Json& part, const std::string& param,
                                 std::span<const std::string_view> types) {
  if (!part.is_object()) return wrong_value(param, "an object", part);
  TRY_ASSIGN(const std::string type, required_string(part, "type", param));
  if (is_among(kUnsupportedContent, type))
    return not_supported(param, "content of type " + type + " is");
  if (auto word = word_of(*part.find("type"), param + ".type", types); !word) return word;
  return required_string(part, type == "refusal" ? "refusal" : "text", param);
}

// A string, or parts of those types: their texts.
Result<std::vector<std::string>> texts_of(const Json* value, const std::string& param,
                                          std::span<const std::string_view> types) {
  if (value != nullptr && value->is_string()) return std::vector<std::string>{value->as_string()};
  if (value == nullptr || !value->is_array())
    return wrong_value(param, "a string or an array of parts", value == nullptr ? Json() : *value);
  std::vector<std::string> texts;
  for (size_t i = 0; i < value->items().size(); ++i) {
    TRY_ASSIGN(std::string text, text_of_part(value->items()[i], item_of(param, i), types));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<void> read_message_item(const Json& item, const std::string& param,
                               std::vector<Message>& out) {
  const Json* role = item.find("role");
  TRY_ASSIGN(const std::string name,
             word_of(role == nullptr ? Json() : *role, param + ".role", kInputRoles));
  TRY_ASSIGN(auto texts, texts_of(item.find("content"), param + ".content", kMessageParts));
  if (name != "assistant") {
    out.push_back({name, std::move(texts)});
    return {};
  }
  std::vector<std::string>& content = assistant_turn(out).content;
  std::move(texts.begin(), texts.end(), std::back_inserter(content));
  return {};
}

Result<void> read_call_item(const Json& item, const std::string& param, std::vector<Message>& out) {
  ToolCall call;
  TRY_ASSIGN(call.id, required_string(item, "call_id", param));
  TRY_ASSIGN(call.name, required_string(item, "name", param));
  TRY_ASSIGN(call.arguments, required_string(item, "arguments", param));
  assistant_turn(out).tool_calls.push_back(std::move(call));
  return {};
}

Result<void> read_output_item(const Json& item, const std::string& param,
                              std::vector<Message>& out) {
  Message message{"tool", {}};
  TRY_ASSIGN(message.tool_call_id, required_string(item, "call_id", param));
  TRY_ASSIGN(message.content, texts_of(item.find("output"), param + ".output", kOutputParts));
  out.push_back(std::move(message));
  return {};
}

// Its content, or what sums it up where another server told no more. What is encrypted nobody here
// can read.
Result<void> read_reasoning_item(const Json& item, const std::string& param,
                                 std::vector<Message>& out) {
  std::vector<std::string> texts;
  if (const Json* content = find_member(item, "content")) {
    TRY_ASSIGN(texts, texts_of(content, param + ".content", kReasoningParts));
  } else if (const Json* summary = find_member(item, "summary")) {
    TRY_ASSIGN(texts, texts_of(summary, param + ".summary", kSummaryParts));
  }
  Message& turn = assistant_turn(out);
  for (const std::string& text : texts) add_reasoning(text, turn);
  return {};
}

struct ItemReader {
  std::string_view type;
  Result<void> (*read)(const Json& item, const std::string& param, std::vector<Message>& out);
};

constexpr ItemReader kItemReaders[] = {{"message", read_message_item},
                                       {"function_call", read_call_item},
                                       {"function_call_output", read_output_item},
                                       {"reasoning", read_reasoning_item}};

// A message may come without its type.
Result<void> read_item(const Json& item, const std::string& param, std::vector<Message>& out) {
  if (!item.is_object()) return wrong_value(param, "an object", item);
  TRY_ASSIGN(const auto told, optional_string(item, "type", param));
  const std::string type = told.value_or("message");
  for (const ItemReader& reader : kItemReaders) {
    if (reader.type == type) return reader.read(item, param, out);
  }
  if (is_among(kUnsupportedItems, type))
    return not_supported(param, "items of type " + type + " are");
  return Error{ErrorCode::kInvalidArgument,
               param +
                   ".type: expected message, function_call, function_call_output or reasoning, "
                   "found " +
                   json_quote(type.substr(0, 40)),
               param + ".type"};
}

}  // namespace

Result<void> read_input(const Json& value, RequestDraft& draft) {
  std::vector<Message>& messages = draft.chat.messages;
  messages.clear();
  if (value.is_string()) {
    messages.push_back({"user", {value.as_string()}});
    return {};
  }
  if (!value.is_array() || value.items().empty())
    return wrong_value("input", "a string or an array of at least one item", value);
  for (size_t i = 0; i < value.items().size(); ++i) {
    if (auto read = read_item(value.items()[i], item_of("input", i), messages); !read) return read;
  }
  return {};
}

}  // namespace stoker
