// Readers of the fields of a body of /v1/messages, as Anthropic's clients send it. Like those of
// field_readers.h: types are strict, errors name the place, what would change an answer and is not
// built is refused by its name.
#pragma once

#include <string>
#include <vector>

#include "server/fields.h"

namespace stoker {

// Each is a FieldReader; its row in field_table.cc says what it takes.
Result<void> read_anthropic_messages(const Json& value, RequestDraft& draft);
Result<void> read_system(const Json& value, RequestDraft& draft);
Result<void> read_token_limit(const Json& value, RequestDraft& draft);
Result<void> read_thinking_config(const Json& value, RequestDraft& draft);
Result<void> read_output_config(const Json& value, RequestDraft& draft);
Result<void> read_output_format(const Json& value, RequestDraft& draft);
Result<void> read_context_management(const Json& value, RequestDraft& draft);
Result<void> read_anthropic_tools(const Json& value, RequestDraft& draft);
Result<void> read_anthropic_tool_choice(const Json& value, RequestDraft& draft);
Result<void> read_metadata(const Json& value, RequestDraft& draft);
Result<void> read_diagnostics(const Json& value, RequestDraft& draft);
Result<void> read_service_tier(const Json& value, RequestDraft& draft);
Result<void> read_cache_control(const Json& value, RequestDraft& draft);

/// A string, or an array of text blocks: their texts. `param` is the place of the value.
Result<std::vector<std::string>> read_text_blocks(const Json& value, const std::string& param);

}  // namespace stoker
