#include "server/fields.h"

#include "base/check.h"
#include "server/member_readers.h"

namespace stoker {
namespace {

// What the engine calls a field that has another name in some place.
struct OtherName {
  FieldPlace place;
  std::string_view engines;
  std::string_view clients;
};

constexpr OtherName kOtherNames[] = {
    {kInMessages, "response_format", "output_config.format"},
    {kInMessages, "reasoning_effort", "output_config.effort"},
    {kInResponses, "messages", "input"},
    {kInResponses, "max_tokens", "max_output_tokens"},
    {kInResponses, "response_format", "text.format"},
    {kInResponses, "reasoning_effort", "reasoning.effort"},
    {kInGenerate, "prompt", "token_ids"},
};

// What clients of a route call a field of the engine's.
std::string clients_name(FieldPlace place, const std::string& field) {
  for (const OtherName& name : kOtherNames) {
    if (name.place == place && name.engines == field) return std::string(name.clients);
  }
  const bool is_inner = place == kInGenerate && find_field(kInSamplingParams, field) != nullptr &&
                        find_field(kInGenerate, field) == nullptr;
  return (is_inner ? "sampling_params." : "") + field;
}

bool same_value(const Json& a, const Json& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Json::Kind::kNull:
      return true;
    case Json::Kind::kBool:
      return a.as_bool() == b.as_bool();
    case Json::Kind::kNumber:
      return a.as_double() == b.as_double();
    case Json::Kind::kString:
      return a.as_string() == b.as_string();
    case Json::Kind::kArray:
      if (a.items().size() != b.items().size()) return false;
      for (size_t i = 0; i < a.items().size(); ++i) {
        if (!same_value(a.items()[i], b.items()[i])) return false;
      }
      return true;
    case Json::Kind::kObject:
      if (a.members().size() != b.members().size()) return false;
      for (const auto& [name, member] : a.members()) {
        const Json* other = b.find(name);
        if (other == nullptr || !same_value(member, *other)) return false;
      }
      return true;
  }
  return false;
}

// The values of an unsupported field that change nothing.
std::vector<Json> neutral_values(const Field& field) {
  auto parsed = Json::parse(field.values);
  CHECK(parsed.has_value() && parsed->is_array(), "the table holds JSON arrays");
  return parsed->items();
}

std::string neutral_values_text(const Field& field, const char* quote, const char* separator) {
  std::string text = std::string(quote) + "null" + quote;
  for (const Json& value : neutral_values(field)) {
    text += std::string(separator) + quote + value.dump() + quote;
  }
  return text;
}

// The last columns of a row.
std::string takes_markdown(const Field& field) {
  return (field.read != nullptr ? field.values : "only " + neutral_values_text(field, "`", ", ")) +
         " | " + field.comment + " |\n";
}

}  // namespace

FieldPlace place_of(Route route) {
  switch (route) {
    case Route::kCompletions:
      return kInCompletions;
    case Route::kChat:
      return kInChat;
    case Route::kResponses:
      return kInResponses;
    case Route::kGenerate:
      return kInGenerate;
    case Route::kMessages:
    case Route::kCountTokens:
      break;
  }
  return kInMessages;
}

std::span<const char* const> required_fields(Route route) {
  static constexpr const char* kPrompt[] = {"prompt"};
  static constexpr const char* kInput[] = {"input"};
  static constexpr const char* kTokenIds[] = {"token_ids"};
  static constexpr const char* kMessagesAlone[] = {"messages"};
  static constexpr const char* kMessagesAndLimit[] = {"messages", "max_tokens"};
  switch (route) {
    case Route::kCompletions:
      return kPrompt;
    case Route::kResponses:
      return kInput;
    case Route::kGenerate:
      return kTokenIds;
    case Route::kMessages:
      return kMessagesAndLimit;
    case Route::kChat:
    case Route::kCountTokens:
      break;
  }
  return kMessagesAlone;
}

const Field* find_field(FieldPlace place, std::string_view name) {
  for (const Field& field : request_fields()) {
    if (name == field.name && field.is_in(place)) return &field;
  }
  return nullptr;
}

Result<void> read_field(const Field& field, const Json& value, RequestDraft& draft) {
  if (value.is_null()) return {};
  if (field.read != nullptr) return field.read(value, draft);
  for (const Json& neutral : neutral_values(field)) {
    if (same_value(value, neutral)) return {};
  }
  return Error{ErrorCode::kUnsupported,
               std::string(field.name) + ": not supported yet (" + field.comment + "); expected " +
                   neutral_values_text(field, "", " or ") + ", found " + describe(value),
               field.name};
}

Error in_terms_of(Route route, Error error) {
  const std::string first = error.field.substr(0, error.field.find_first_of(".["));
  const std::string name = clients_name(place_of(route), first);
  if (error.message.rfind(first, 0) == 0) error.message.replace(0, first.size(), name);
  error.field.replace(0, first.size(), name);
  return error;
}

std::string request_fields_markdown() {
  std::string text =
      "| Field | Completions | Chat | Takes | Notes |\n| --- | --- | --- | --- | --- |\n";
  for (const Field& field : request_fields()) {
    if (!field.is_in(kInCompletions) && !field.is_in(kInChat)) continue;
    const char* there = field.read != nullptr ? "yes" : "refused";
    text += "| `" + std::string(field.name) + "` | " + (field.is_in(kInCompletions) ? there : "-") +
            " | " + (field.is_in(kInChat) ? there : "-") + " | " + takes_markdown(field);
  }
  return text;
}

std::string fields_markdown(FieldPlace place) {
  std::string text = "| Field | There | Takes | Notes |\n| --- | --- | --- | --- |\n";
  for (const Field& field : request_fields()) {
    if (!field.is_in(place)) continue;
    text += "| `" + std::string(field.name) + "` | " + (field.read != nullptr ? "yes" : "refused") +
            " | " + takes_markdown(field);
  }
  return text;
}

}  // namespace stoker
