#include "chat/tool_block.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>
#include <utility>

#include "chat/python_json.h"

namespace stoker::chat {

// clang-format off
const std::string_view kToolBlockHead =
    "## Tools\n"
    "\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools by"
    " writing a \"<｜DSML｜ calls>\" block like the following:\n"
    "\n"
    "<｜DSML｜ calls>\n"
    "<｜DSML｜ invoke name=\"$TOOL_NAME\">\n"
    "<｜DSML｜ parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE"
    "</｜DSML｜ parameter>\n"
    "...\n"
    "</｜DSML｜ invoke>\n"
    "<｜DSML｜ invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</｜DSML｜ invoke>\n"
    "</｜DSML｜ calls>\n"
    "\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types"
    " (numbers, booleans, arrays, objects), pass the value in JSON format and set"
    " `string=\"false\"`.\n"
    "\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning"
    " inside <think>...</think> BEFORE any tool calls or final response.\n"
    "\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n"
    "\n"
    "### Available Tool Schemas\n"
    "\n";
const std::string_view kToolBlockTail =
    "\n"
    "\n"
    "You MUST strictly follow the above defined tool name and parameter schemas to invoke tool"
    " calls.\n";
// clang-format on

namespace {

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

Result<void> check_names(const std::vector<Tool>& tools) {
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string& name = tools[i].name;
    const std::string field = "tools[" + std::to_string(i) + "].function.name";
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_name_byte)) {
      return Error{ErrorCode::kInvalidArgument,
                   field + ": expected letters, digits, _ and -, found " + json_quote(name), field};
    }
    if (!names.insert(name).second) {
      return Error{ErrorCode::kInvalidArgument,
                   field + ": expected a name for each tool, found " + json_quote(name) + " twice",
                   field};
    }
  }
  return {};
}

bool is_object_schema(const Json& schema) {
  const Json* type = schema.find("type");
  if (type == nullptr) return schema.find("properties") != nullptr;
  const auto says_object = [](const Json& name) { return name.as_string() == "object"; };
  return says_object(*type) || std::any_of(type->items().begin(), type->items().end(), says_object);
}

template <size_t n>
bool is_one_of(std::string_view name, const std::array<std::string_view, n>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Json completed(const Json& schema);

// A member whose value is a list or a map of schemas.
Json completed_each(const Json& schemas) {
  std::vector<Json> items;
  for (const Json& item : schemas.items()) items.push_back(completed(item));
  std::vector<Json::Member> members;
  for (const auto& [name, member] : schemas.members())
    members.emplace_back(name, completed(member));
  if (schemas.is_array()) return Json::array(std::move(items));
  return schemas.is_object() ? Json::object(std::move(members)) : schemas;
}

// The schema with nothing optional and nothing else allowed in any object within. Values that are
// no schemas (const, default, enum) stay as they are. Recursion is as deep as the schema, which its
// parser bounds.
Json completed(const Json& schema) {
  constexpr std::array<std::string_view, 8> kEach = {
      "properties", "patternProperties", "$defs", "definitions", "anyOf", "allOf",
      "oneOf",      "prefixItems"};
  constexpr std::array<std::string_view, 2> kOne = {"items", "not"};
  if (!schema.is_object()) return schema;
  std::vector<Json::Member> members;
  for (const auto& [name, member] : schema.members()) {
    const bool has_each = is_one_of(name, kEach) || (name == "items" && member.is_array());
    const bool has_one = !has_each && is_one_of(name, kOne);
    members.emplace_back(name, has_each  ? completed_each(member)
                               : has_one ? completed(member)
                                         : member);
  }
  Json result = Json::object(std::move(members));
  if (!is_object_schema(schema)) return result;
  std::vector<Json> required;
  if (const Json* properties = schema.find("properties")) {
    for (const auto& [name, property] : properties->members())
      required.push_back(Json::string(name));
  }
  result.set("additionalProperties", Json::boolean(false));
  result.set("required", Json::array(std::move(required)));
  return result;
}

Json schema_of(const Tool& tool) {
  Json parameters = Json::object();
  if (tool.parameters.has_value() && !tool.parameters->is_null()) {
    parameters = tool.strict ? completed(*tool.parameters) : *tool.parameters;
  }
  return Json::object({{"name", Json::string(tool.name)},
                       {"description", Json::string(tool.description.value_or(""))},
                       {"parameters", std::move(parameters)}});
}

Error no_such_tool(const std::string& message) {
  return {ErrorCode::kInvalidArgument, "tool_choice: " + message, "tool_choice"};
}

}  // namespace

Result<std::vector<const Tool*>> shown_tools(const Conversation& conversation) {
  const std::vector<Tool>& tools = conversation.tools;
  const ToolChoice& choice = conversation.tool_choice;
  if (const auto checked = check_names(tools); !checked.has_value()) return checked.error();
  std::vector<const Tool*> shown;
  if (choice.kind == ToolChoice::Kind::kNone) return shown;
  for (const Tool& tool : tools) {
    if (choice.kind != ToolChoice::Kind::kNamed || tool.name == choice.name) shown.push_back(&tool);
  }
  if (!shown.empty() || choice.kind == ToolChoice::Kind::kAuto) return shown;
  if (choice.kind == ToolChoice::Kind::kRequired) {
    return no_such_tool("expected tools beside \"required\", found none");
  }
  return no_such_tool("expected the name of one of the tools, found " + json_quote(choice.name));
}

void write_tool_block(Writer& out, const std::vector<const Tool*>& tools) {
  out.template_text(kToolBlockHead);
  std::string schemas;
  for (const Tool* tool : tools) {
    if (!schemas.empty()) schemas += '\n';
    append_python_json(schemas, schema_of(*tool));
  }
  out.text(schemas);
  out.template_text(kToolBlockTail);
}

}  // namespace stoker::chat
