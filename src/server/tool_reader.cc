// Reads `tools` and `tool_choice`.
#include <utility>

#include "base/try.h"
#include "server/field_readers.h"

namespace stoker {
namespace {

// A member that is a string, or nothing where it is absent or null.
Result<std::optional<std::string>> string_member(const Json& json, const char* name,
                                                 const std::string& param) {
  const Json* value = json.find(name);
  if (value == nullptr || value->is_null()) return std::optional<std::string>();
  if (!value->is_string()) return wrong_value(param + "." + name, "a string", *value);
  return std::optional(value->as_string());
}

// {"type": "function", "function": {...}}: the inner object.
Result<const Json*> function_of(const Json& json, const std::string& param) {
  if (!json.is_object()) return wrong_value(param, "an object", json);
  const Json* type = json.find("type");
  if (type == nullptr || !type->is_string())
    return wrong_value(param + ".type", "function", type == nullptr ? Json() : *type);
  if (type->as_string() != "function")
    return not_supported(param + ".type",
                         "tools of type " + type->as_string().substr(0, 40) + " are");
  const Json* function = json.find("function");
  if (function == nullptr || !function->is_object())
    return wrong_value(param + ".function", "an object", function == nullptr ? Json() : *function);
  return function;
}

Result<std::string> name_of(const Json& function, const std::string& param) {
  const Json* name = function.find("name");
  if (name == nullptr || !name->is_string())
    return wrong_value(param + ".function.name", "a string", name == nullptr ? Json() : *name);
  return name->as_string();
}

Result<Tool> tool_of(const Json& json, const std::string& param) {
  TRY_ASSIGN(const Json* function, function_of(json, param));
  Tool tool;
  TRY_ASSIGN(tool.name, name_of(*function, param));
  TRY_ASSIGN(tool.description, string_member(*function, "description", param + ".function"));
  const Json* parameters = function->find("parameters");
  if (parameters != nullptr && !parameters->is_null()) {
    if (!parameters->is_object())
      return wrong_value(param + ".function.parameters", "an object", *parameters);
    tool.parameters = parameters->dump();
  }
  const Json* strict = function->find("strict");
  if (strict != nullptr && !strict->is_null()) {
    if (!strict->is_bool()) return wrong_value(param + ".function.strict", "a boolean", *strict);
    tool.strict = strict->as_bool();
  }
  return tool;
}

}  // namespace

Result<void> read_tools(const Json& value, RequestDraft& draft) {
  if (!value.is_array()) return wrong_value("tools", "an array of tools", value);
  if (value.items().size() > kMaxTools) {
    return Error{ErrorCode::kInvalidArgument,
                 "tools: expected at most " + std::to_string(kMaxTools) + ", found " +
                     std::to_string(value.items().size()),
                 "tools"};
  }
  draft.chat.tools.clear();
  for (size_t i = 0; i < value.items().size(); ++i) {
    TRY_ASSIGN(Tool tool, tool_of(value.items()[i], "tools[" + std::to_string(i) + "]"));
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
    TRY_ASSIGN(std::string name, name_of(*function, "tool_choice"));
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
