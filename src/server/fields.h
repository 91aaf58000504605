// The table of the fields of a request body: what each takes, and which are known but not built.
// The parser, its refusals and docs/server.md are made from it. Its rows are in field_table.cc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "server/request_parser.h"

namespace stoker {

/// A request while its fields are read, in whatever order they come.
struct RequestDraft {
  ParsedRequest parsed;
  std::vector<std::variant<TextPrompt, TokenPrompt>> prompts;
  ChatPrompt chat;
  std::vector<std::string> system;  ///< texts of a system message in front of the chat's
  Request request;                  ///< but for its prompt
  std::optional<int32_t> max_completion_tokens;
  std::optional<int32_t> best_of;
  std::optional<int32_t> top_logprobs;
  RepetitionDetection repetition;  ///< by its older names
  bool add_special_tokens = false;
  std::optional<bool> template_thinking;       ///< of chat_template_kwargs,
  std::optional<std::string> template_effort;  ///< and the effort
  bool has_stream_options = false;
  bool continue_final_message = false;
  std::optional<bool> add_generation_prompt;
};

/// Reads the value of a field into the draft; never called with null. Errors: kInvalidArgument,
/// kUnsupported, with the field.
using FieldReader = Result<void> (*)(const Json& value, RequestDraft& draft);

/// Where a field may stand.
enum FieldPlace : unsigned {
  kInCompletions = 1,
  kInChat = 2,
  kInMessages = 4,
  kInResponses = 8,
  kInGenerate = 16,
  kInSamplingParams = 32,  ///< of a body of kInGenerate
};

/// That of the members of a route's bodies.
FieldPlace place_of(Route route);

/// One field of the table.
struct Field {
  const char* name;
  unsigned places;      ///< of FieldPlace
  FieldReader read;     ///< null: not supported
  const char* values;   ///< supported: what it takes, for people; api_schemas.cc has the schema of
                        ///< that text. Else: the values that change nothing, as a JSON array,
                        ///< apart from null
  const char* comment;  ///< for people: what it does, or what it would do

  bool is_in(FieldPlace place) const { return (places & place) != 0; }
};

/// All rows, in the order of docs/server.md.
std::span<const Field> request_fields();

/// The row of that name in that place, or null.
const Field* find_field(FieldPlace place, std::string_view name);

/// The fields that a body of that route must have, and not as null.
std::span<const char* const> required_fields(Route route);

/// Reads one member of a body: through its row's reader, or by comparing with what changes nothing.
/// Null reads as absent. Errors: as FieldReader; kUnsupported for a value of an unsupported field
/// that would change something.
Result<void> read_field(const Field& field, const Json& value, RequestDraft& draft);

/// An error whose field has the name of completions and chats, which the engine uses, as clients of
/// that route know it.
Error in_terms_of(Route route, Error error);

/// The table as docs/server.md has it, in Markdown: completions and chat.
std::string request_fields_markdown();

/// The same of one place alone.
std::string fields_markdown(FieldPlace place);

}  // namespace stoker
