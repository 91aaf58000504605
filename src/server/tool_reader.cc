// Reads `tools` and `tool_choice`, each in two shapes: what describes a function stands in a member
// of its own, as in chats, or beside the type, flat.
#include <algorithm>
#include <utility>

#include "base/try.h"
#include "server/field_readers.h"

namespace stoker {
namespace {

constexpr size_t kMaxTools = 128;  // of one request

Result<void> check_function_type(const Json& json, const std::string& param) {
  if (!json.is_object()) return wrong_value(param, "an object", json);
  const Json* type = json.find("type");
  if (type == nullptr || !type->is_string())
    return wrong_value(param + ".type", "function", type == nullptr ? Json() : *type);
  if (type->as_string() == "function") return {};
  return not_supported(param + ".type",
                       "tools of type " + type->as_string().substr(0, 40) + " are");
}

// {"type": "function", "function": {...}}: the inner object.
Result<const Json*> function_of(const Json& json, const std::string& param) {
  if (auto checked = check_function_type(json, param); !checked) return std::move(checked).error();
  return required_object(json, "function", param);
}

// What describes a function, at `param`.
Result<Tool> tool_of(const Json& function, const std::string& param) {
  Tool tool;
  TRY_ASSIGN(tool.name, required_string(function, "name", param));
  TRY_ASSIGN(tool.description, optional_string(function, "description", param));
  if (find_member(function, "parameters") != nullptr) {
    TRY_ASSIGN(const Json* parameters, required_object(function, "parameters", param));
    tool.parameters = parameters->dump();
  }
  TRY_ASSIGN(const auto is_strict, optional_bool(function, "strict", param));
  tool.strict = is_strict.value_or(false);
  return tool;
}

Result<void> read_choice_word(const Json& value, RequestDraft& draft) {
  constexpr std::pair<const char*, ToolChoice::Kind> kWords[] = {
      {"auto", ToolChoice::Kind::kAuto},
      {"none", ToolChoice::Kind::kNone},
      {"required", ToolChoice::Kind::kRequired}};
  for (const auto& [word, kind] : kWords) {
    if (!value.is_string() || value.as_string() != word) continue;
    draft.chat.tool_choice = {kind};
    return {};
  }
  return Error{
      ErrorCode::kInvalidArgument,
      "tool_choice: expected auto, none, required or a function, found " +
          (value.is_string() ? json_quote(value.as_string().substr(0, 40)) : describe(value)),
      "tool_choice"};
}

}  // namespace

Result<void> check_tools(const Json& value) {
  if (!value.is_array()) return wrong_value("tools", "an array of tools", value);
  if (value.items().size() <= kMaxTools) return {};
  return Error{ErrorCode::kInvalidArgument,
               "tools: expected at most " + std::to_string(kMaxTools) + ", found " +
                   std::to_string(value.items().size()),
               "tools"};
}

Result<void> check_tool_name(const Tool& tool, const std::vector<Tool>& before,
                             const std::string& param) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  const bool is_known = std::any_of(before.begin(), before.end(),
                                    [&](const Tool& other) { return other.name == tool.name; });
  const bool is_good =
      !tool.name.empty() && std::all_of(tool.name.begin(), tool.name.end(), is_allowed);
  if (is_good && !is_known) return {};
  return Error{ErrorCode::kInvalidArgument,
               param + ".name: expected letters, digits, _ and -, no two tools alike, found " +
                   json_quote(tool.name.substr(0, 80)),
               param + ".name"};
}

Result<void> read_tools(const Json& value, RequestDraft& draft) {
  if (auto checked = check_tools(value); !checked) return checked;
  draft.chat.tools.clear();
  for (size_t i = 0; i < value.items().size(); ++i) {
    const std::string param = item_of("tools", i);
    TRY_ASSIGN(const Json* function, function_of(value.items()[i], param));
    TRY_ASSIGN(Tool tool, tool_of(*function, param + ".function"));
    draft.chat.tools.push_back(std::move(tool));
  }
  return {};
}

Result<void> read_flat_tools(const Json& value, RequestDraft& draft) {
  if (auto checked = check_tools(value); !checked) return checked;
  std::vector<Tool>& tools = draft.chat.tools;
  tools.clear();
  for (size_t i = 0; i < value.items().size(); ++i) {
    const Json& json = value.items()[i];
    const std::string param = item_of("tools", i);
    if (auto checked = check_function_type(json, param); !checked) return checked;
    TRY_ASSIGN(Tool tool, tool_of(json, param));
    if (auto checked = check_tool_name(tool, tools, param); !checked) return checked;
    tools.push_back(std::move(tool));
  }
  return {};
}

Result<void> read_tool_choice(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return read_choice_word(value, draft);
  TRY_ASSIGN(const Json* function, function_of(value, "tool_choice"));
  TRY_ASSIGN(std::string name, required_string(*function, "name", "tool_choice.function"));
  draft.chat.tool_choice = {ToolChoice::Kind::kNamed, std::move(name)};
  return {};
}

Result<void> read_flat_tool_choice(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return read_choice_word(value, draft);
  if (auto checked = check_function_type(value, "tool_choice"); !checked) return checked;
  TRY_ASSIGN(std::string name, required_string(value, "name", "tool_choice"));
  draft.chat.tool_choice = {ToolChoice::Kind::kNamed, std::move(name)};
  return {};
}

}  // namespace stoker
