// Readers of the fields of a body of /v1/responses, as OpenAI's clients send it. Like those of
// field_readers.h: types are strict, errors name the place, what would change an answer and is not
// built is refused by its name.
#pragma once

#include <string>

#include "server/fields.h"

namespace stoker {

// Each is a FieldReader; its row in field_table.cc says what it takes.
Result<void> read_input(const Json& value, RequestDraft& draft);
Result<void> read_instructions(const Json& value, RequestDraft& draft);
Result<void> read_max_output_tokens(const Json& value, RequestDraft& draft);
Result<void> read_reasoning_config(const Json& value, RequestDraft& draft);
Result<void> read_text_config(const Json& value, RequestDraft& draft);
Result<void> read_pairs(const Json& value, RequestDraft& draft);
Result<void> read_store(const Json& value, RequestDraft& draft);
Result<void> read_include(const Json& value, RequestDraft& draft);
Result<void> read_prompt_cache_key(const Json& value, RequestDraft& draft);
Result<void> read_safety_identifier(const Json& value, RequestDraft& draft);

/// The members of a body that its answer repeats, or what they are where they are absent: JSON
/// members, separated by commas. Errors: kInvalidArgument where they are too long.
Result<std::string> repeated_members(const Json& body);

}  // namespace stoker
