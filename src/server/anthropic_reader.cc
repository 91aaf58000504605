#include "server/anthropic_reader.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/try.h"
#include "server/field_readers.h"

namespace stoker {
namespace {

constexpr std::string_view kThinkingTypes[] = {"enabled", "disabled", "adaptive"};
constexpr std::string_view kDisplays[] = {"summarized", "omitted"};
constexpr std::string_view kEfforts[] = {"low", "medium", "high", "xhigh", "max"};

// More tokens than any answer may have are no limit.
Result<void> read_budget_tokens(const Json& thinking, RequestDraft& draft) {
  const Json* value = find_member(thinking, "budget_tokens");
  if (value == nullptr) return {};
  const int64_t budget = value->as_int().value_or(0);
  if (budget < 1) return wrong_value("thinking.budget_tokens", "an integer >= 1", *value);
  if (budget <= INT32_MAX) draft.request.thinking_token_budget = static_cast<int32_t>(budget);
  return {};
}

bool is_empty(const Json& value) {
  return (value.is_array() && value.items().empty()) ||
         (value.is_object() && value.members().empty());
}

// Members of a tool that change what the model reads of it or who may call it, and the value that
// changes nothing.
Result<void> check_tool_members(const Json& json, const std::string& param) {
  const Json* examples = find_member(json, "input_examples");
  if (examples != nullptr && !is_empty(*examples))
    return not_supported(param + ".input_examples", "examples are");
  TRY_ASSIGN(const auto is_deferred, optional_bool(json, "defer_loading", param));
  if (is_deferred.value_or(false))
    return not_supported(param + ".defer_loading", "tools that are found later are");
  const Json* callers = find_member(json, "allowed_callers");
  const bool is_direct =
      callers == nullptr || (callers->items().size() == 1 && callers->items()[0].is_string() &&
                             callers->items()[0].as_string() == "direct");
  if (!is_direct)
    return not_supported(param + ".allowed_callers", "callers other than [\"direct\"] are");
  return {};
}

Result<Tool> read_anthropic_tool(const Json& json, const std::string& param) {
  if (!json.is_object()) return wrong_value(param, "an object", json);
  if (const Json* type = find_member(json, "type")) {
    if (!type->is_string()) return wrong_value(param + ".type", "a string", *type);
    if (type->as_string() != "custom")
      return not_supported(param + ".type",
                           "tools of type " + type->as_string().substr(0, 40) + " are");
  }
  Tool tool;
  TRY_ASSIGN(tool.name, required_string(json, "name", param));
  TRY_ASSIGN(tool.description, optional_string(json, "description", param));
  TRY_ASSIGN(const Json* schema, required_object(json, "input_schema", param));
  tool.parameters = schema->dump();
  TRY_ASSIGN(const auto is_strict, optional_bool(json, "strict", param));
  tool.strict = is_strict.value_or(false);
  if (auto checked = check_tool_members(json, param); !checked) return std::move(checked).error();
  return tool;
}

// Of the edits that a client may ask for, the one that takes nothing away.
Result<void> read_edit(const Json& edit, const std::string& param, RequestDraft& draft) {
  if (!edit.is_object()) return wrong_value(param, "an object", edit);
  TRY_ASSIGN(const std::string type, required_string(edit, "type", param));
  if (type != "clear_thinking_20251015")
    return not_supported(param + ".type", "edits of type " + type.substr(0, 40) + " are");
  const Json* keep = find_member(edit, "keep");
  if (keep != nullptr && keep->is_object()) keep = find_member(*keep, "type");
  if (keep == nullptr || !keep->is_string() || keep->as_string() != "all")
    return not_supported(param + ".keep", "anything but all is");
  draft.chat.keep_reasoning = true;
  return {};
}

Result<void> read_schema_format(const Json& value, const std::string& param, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value(param, "an object", value);
  TRY_ASSIGN(const std::string type, required_string(value, "type", param));
  if (type == "json_schema") return read_flat_format(value, param, draft);
  return Error{ErrorCode::kInvalidArgument,
               param + ".type: expected json_schema, found " + json_quote(type.substr(0, 40)),
               param + ".type"};
}

}  // namespace

Result<void> read_system(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.system, read_text_blocks(value, "system"));
  return {};
}

Result<void> read_token_limit(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.max_tokens, read_count_from_1(value, "max_tokens"));
  return {};
}

Result<void> read_thinking_config(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value("thinking", "an object", value);
  const Json* type = value.find("type");
  TRY_ASSIGN(draft.chat.thinking,
             word_of(type == nullptr ? Json() : *type, "thinking.type", kThinkingTypes));
  if (auto read = read_budget_tokens(value, draft); !read) return read;
  if (const Json* display = find_member(value, "display")) {
    TRY_ASSIGN(const std::string word, word_of(*display, "thinking.display", kDisplays));
    draft.parsed.form.include_reasoning = word != "omitted";
  }
  return {};
}

Result<void> read_output_config(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value("output_config", "an object", value);
  if (const Json* format = find_member(value, "format")) {
    if (auto read = read_schema_format(*format, "output_config.format", draft); !read) return read;
  }
  if (find_member(value, "task_budget") != nullptr)
    return not_supported("output_config.task_budget", "budgets of tasks are");
  if (const Json* effort = find_member(value, "effort")) {
    TRY_ASSIGN(draft.chat.reasoning_effort, word_of(*effort, "output_config.effort", kEfforts));
  }
  return {};
}

// What was `output_config.format` before.
Result<void> read_output_format(const Json& value, RequestDraft& draft) {
  return read_schema_format(value, "output_format", draft);
}

Result<void> read_context_management(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value("context_management", "an object", value);
  const Json* edits = find_member(value, "edits");
  if (edits == nullptr) return {};
  if (!edits->is_array()) return wrong_value("context_management.edits", "an array", *edits);
  for (size_t i = 0; i < edits->items().size(); ++i) {
    const std::string param = item_of("context_management.edits", i);
    if (auto read = read_edit(edits->items()[i], param, draft); !read) return read;
  }
  return {};
}

Result<void> read_anthropic_tools(const Json& value, RequestDraft& draft) {
  if (auto checked = check_tools(value); !checked) return checked;
  std::vector<Tool>& tools = draft.chat.tools;
  tools.clear();
  for (size_t i = 0; i < value.items().size(); ++i) {
    const std::string param = item_of("tools", i);
    TRY_ASSIGN(Tool tool, read_anthropic_tool(value.items()[i], param));
    if (auto checked = check_tool_name(tool, tools, param); !checked) return checked;
    tools.push_back(std::move(tool));
  }
  return {};
}

Result<void> read_anthropic_tool_choice(const Json& value, RequestDraft& draft) {
  constexpr std::string_view kTypes[] = {"auto", "any", "tool", "none"};
  constexpr ToolChoice::Kind kKinds[] = {ToolChoice::Kind::kAuto, ToolChoice::Kind::kRequired,
                                         ToolChoice::Kind::kNamed, ToolChoice::Kind::kNone};
  if (!value.is_object()) return wrong_value("tool_choice", "an object", value);
  const Json* type = value.find("type");
  TRY_ASSIGN(const std::string word,
             word_of(type == nullptr ? Json() : *type, "tool_choice.type", kTypes));
  ToolChoice& choice = draft.chat.tool_choice;
  choice.kind = kKinds[std::find(std::begin(kTypes), std::end(kTypes), word) - std::begin(kTypes)];
  if (choice.kind == ToolChoice::Kind::kNamed) {
    TRY_ASSIGN(choice.name, required_string(value, "name", "tool_choice"));
  }
  TRY_ASSIGN(const auto is_single,
             optional_bool(value, "disable_parallel_tool_use", "tool_choice"));
  draft.chat.parallel_tool_calls = !is_single.value_or(false);
  return {};
}

Result<void> read_metadata(const Json& value, RequestDraft& /*draft*/) {
  if (!value.is_object()) return wrong_value("metadata", "an object", value);
  return {};
}

Result<void> read_diagnostics(const Json& value, RequestDraft& /*draft*/) {
  if (!value.is_object()) return wrong_value("diagnostics", "an object", value);
  return {};
}

Result<void> read_service_tier(const Json& value, RequestDraft& /*draft*/) {
  if (!value.is_string()) return wrong_value("service_tier", "a string", value);
  return {};
}

Result<void> read_cache_control(const Json& value, RequestDraft& /*draft*/) {
  if (!value.is_object()) return wrong_value("cache_control", "an object", value);
  return {};
}

}  // namespace stoker
