// Reads `tools` and `tool_choice`.
#include <utility>

#include "base/try.h"
#include "server/field_readers.h"

namespace stoker {
namespace {

constexpr size_t kMaxTools = 128;  // of one request

// {"type": "function", "function": {...}}: the inner object.
Result<const Json*> function_of(const Json& json, const std::string& param) {
  if (!json.is_object()) return wrong_value(param, "an object", json);
  const Json* type = json.find("type");
  if (type == nullptr || !type->is_string())
    return wrong_value(param + ".type", "function", type == nullptr ? Json() : *type);
  if (type->as_string() != "function")
    return not_supported(param + ".type",
                         "tools of type " + type->as_string().substr(0, 40) + " are");
  return required_object(json, "function", param);
}

Result<Tool> tool_of(const Json& json, const std::string& param) {
  TRY_ASSIGN(const Json* function, function_of(json, param));
  const std::string place = param + ".function";
  Tool tool;
  TRY_ASSIGN(tool.name, required_string(*function, "name", place));
  TRY_ASSIGN(tool.description, optional_string(*function, "description", place));
  if (find_member(*function, "parameters") != nullptr) {
    TRY_ASSIGN(const Json* parameters, required_object(*function, "parameters", place));
    tool.parameters = parameters->dump();
  }
  TRY_ASSIGN(const auto is_strict, optional_bool(*function, "strict", place));
  tool.strict = is_strict.value_or(false);
  return tool;
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

Result<void> read_tools(const Json& value, RequestDraft& draft) {
  if (auto checked = check_tools(value); !checked) return checked;
  draft.chat.tools.clear();
  for (size_t i = 0; i < value.items().size(); ++i) {
    TRY_ASSIGN(Tool tool, tool_of(value.items()[i], item_of("tools", i)));
    draft.chat.tools.push_back(std::move(tool));
  }
  return {};
}

Result<void> read_tool_choice(const Json& value, RequestDraft& draft) {
  constexpr std::pair<const char*, ToolChoice::Kind> kWords[] = {
      {"auto", ToolChoice::Kind::kAuto},
      {"none", ToolChoice::Kind::kNone},
      {"required", ToolChoice::Kind::kRequired}};
  if (value.is_object()) {
    TRY_ASSIGN(const Json* function, function_of(value, "tool_choice"));
    TRY_ASSIGN(std::string name, required_string(*function, "name", "tool_choice.function"));
    draft.chat.tool_choice = {ToolChoice::Kind::kNamed, std::move(name)};
    return {};
  }
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

}  // namespace stoker
