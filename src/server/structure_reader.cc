// Reads what says in which form an answer must be: `response_format` and what other interfaces have
// for it, `structured_outputs` and its older names.
#include <utility>

#include "base/try.h"
#include "server/field_readers.h"

namespace stoker {
namespace {

constexpr size_t kMaxChoiceTexts = 4096;

Error two_forms(const std::string& param) {
  return {ErrorCode::kInvalidArgument,
          param + ": expected one form of the answer, found another one beside it", param};
}

Result<void> set_structure(RequestDraft& draft, Structure structure, const std::string& param) {
  if (draft.request.structure.kind != Structure::Kind::kNone) return two_forms(param);
  structure.any_whitespace = draft.request.structure.any_whitespace;
  structure.disable_additional_properties = draft.request.structure.disable_additional_properties;
  draft.request.structure = std::move(structure);
  return {};
}

Result<std::string> text_of(const Json& value, const std::string& param) {
  if (!value.is_string() || value.as_string().empty())
    return wrong_value(param, "a string that is not empty", value);
  return value.as_string();
}

Result<Structure> json_of(const Json& value, const std::string& param) {
  if (!value.is_object() && !value.is_bool() && !value.is_string())
    return wrong_value(param, "a JSON schema", value);
  return Structure{Structure::Kind::kJsonSchema,
                   value.is_string() ? value.as_string() : value.dump()};
}

Result<Structure> regex_of(const Json& value, const std::string& param) {
  TRY_ASSIGN(std::string text, text_of(value, param));
  return Structure{Structure::Kind::kRegex, std::move(text)};
}

Result<Structure> grammar_of(const Json& value, const std::string& param) {
  TRY_ASSIGN(std::string text, text_of(value, param));
  return Structure{Structure::Kind::kGrammar, std::move(text)};
}

Result<Structure> choice_of(const Json& value, const std::string& param) {
  if (!value.is_array() || value.items().empty() || value.items().size() > kMaxChoiceTexts)
    return wrong_value(param, "an array of 1 to 4096 strings", value);
  Structure structure{Structure::Kind::kChoice};
  for (size_t i = 0; i < value.items().size(); ++i) {
    TRY_ASSIGN(std::string text, text_of(value.items()[i], item_of(param, i)));
    structure.choices.push_back(std::move(text));
  }
  return structure;
}

Result<Structure> json_object_of(const Json& value, const std::string& param) {
  if (!value.is_bool() || !value.as_bool()) return wrong_value(param, "true", value);
  return Structure{Structure::Kind::kJsonObject};
}

struct Form {
  const char* name;
  Result<Structure> (*read)(const Json& value, const std::string& param);
};

constexpr Form kForms[] = {{"json", json_of},
                           {"regex", regex_of},
                           {"choice", choice_of},
                           {"grammar", grammar_of},
                           {"json_object", json_object_of}};

// Members that say how JSON is spelled.
Result<bool> read_spelling(const std::string& name, const Json& value, Structure& structure) {
  const std::string param = "structured_outputs." + name;
  const bool is_whitespace = name == "disable_any_whitespace";
  if (!is_whitespace && name != "disable_additional_properties") return false;
  if (!value.is_bool()) return wrong_value(param, "a boolean", value);
  if (is_whitespace) {
    structure.any_whitespace = !value.as_bool();
  } else {
    structure.disable_additional_properties = value.as_bool();
  }
  return true;
}

Result<void> read_form(const Form& form, const Json& value, const std::string& param,
                       RequestDraft& draft) {
  TRY_ASSIGN(Structure structure, form.read(value, param));
  return set_structure(draft, std::move(structure), param);
}

// The member "schema" of an object.
Result<Structure> schema_of(const Json& object, const std::string& param) {
  const Json* schema = object.find("schema");
  if (schema == nullptr || !schema->is_object())
    return wrong_value(param + ".schema", "a JSON schema", schema == nullptr ? Json() : *schema);
  return Structure{Structure::Kind::kJsonSchema, schema->dump()};
}

// {"type": ...}; a schema is a member of it, or of its member "json_schema".
Result<void> read_format(const Json& value, const std::string& param, bool is_flat,
                         RequestDraft& draft) {
  if (!value.is_object()) return wrong_value(param, "an object", value);
  const Json* type = value.find("type");
  const std::string name = type == nullptr ? std::string() : type->as_string();
  if (name == "text") return {};
  Structure structure{Structure::Kind::kJsonObject};
  if (name == "json_schema" && is_flat) {
    TRY_ASSIGN(structure, schema_of(value, param));
  } else if (name == "json_schema") {
    TRY_ASSIGN(const Json* inner, required_object(value, "json_schema", param));
    TRY_ASSIGN(structure, schema_of(*inner, param + ".json_schema"));
  } else if (name == "structural_tag") {
    return not_supported(param + ".type", "structural_tag is");
  } else if (name != "json_object") {
    return wrong_value(param + ".type", "text, json_object or json_schema",
                       type == nullptr ? Json() : *type);
  }
  structure.is_shown = true;
  return set_structure(draft, std::move(structure), param);
}

}  // namespace

Result<void> read_response_format(const Json& value, RequestDraft& draft) {
  return read_format(value, "response_format", false, draft);
}

Result<void> read_flat_format(const Json& value, const std::string& param, RequestDraft& draft) {
  return read_format(value, param, true, draft);
}

Result<void> read_structured_outputs(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value("structured_outputs", "an object", value);
  for (const auto& [name, item] : value.members()) {
    if (item.is_null()) continue;
    TRY_ASSIGN(const bool is_spelling, read_spelling(name, item, draft.request.structure));
    if (is_spelling) continue;
    const std::string param = "structured_outputs." + name.substr(0, 40);
    const Form* found = nullptr;
    for (const Form& form : kForms) {
      if (name == form.name) found = &form;
    }
    if (found == nullptr) return not_supported(param, "this member is");
    if (auto read = read_form(*found, item, param, draft); !read) return read;
  }
  return {};
}

Result<void> read_guided_json(const Json& value, RequestDraft& draft) {
  return read_form(kForms[0], value, "guided_json", draft);
}

Result<void> read_guided_regex(const Json& value, RequestDraft& draft) {
  return read_form(kForms[1], value, "guided_regex", draft);
}

Result<void> read_guided_choice(const Json& value, RequestDraft& draft) {
  return read_form(kForms[2], value, "guided_choice", draft);
}

Result<void> read_guided_grammar(const Json& value, RequestDraft& draft) {
  return read_form(kForms[3], value, "guided_grammar", draft);
}

}  // namespace stoker
