// Readers of the fields of a body of /inference/v1/generate: a prompt in token ids, and vLLM's
// sampling parameters, which are fields of completions in an object of their own.
#pragma once

#include "server/fields.h"

namespace stoker {

// Each is a FieldReader; its row in field_table.cc says what it takes.
Result<void> read_token_ids(const Json& value, RequestDraft& draft);
Result<void> read_sampling_params(const Json& value, RequestDraft& draft);

}  // namespace stoker
