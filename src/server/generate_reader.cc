#include "server/generate_reader.h"

#include <utility>

#include "base/try.h"
#include "server/field_readers.h"

namespace stoker {

Result<void> read_token_ids(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(auto ids, read_ids(value, "token_ids"));
  if (ids.empty()) return wrong_value("token_ids", "at least one token id", value);
  draft.prompts = {TokenPrompt{std::move(ids)}};
  return {};
}

// What is not known here might be a parameter that changes the answer.
Result<void> read_sampling_params(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value("sampling_params", "an object", value);
  for (const auto& [name, item] : value.members()) {
    const Field* field = find_field(kInSamplingParams, name);
    if (field == nullptr) return not_supported("sampling_params." + name.substr(0, 64), "it is");
    if (auto read = read_field(*field, item, draft); !read)
      return in_terms_of(Route::kGenerate, std::move(read).error());
  }
  return {};
}

}  // namespace stoker
