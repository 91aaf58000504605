// Readers of single fields of a request body: types are strict, ranges are checked, errors name the
// place.
#pragma once

#include "server/fields.h"

namespace stoker {

// Each is a FieldReader; its row in fields.cc says what it takes.
Result<void> read_model(const Json& value, RequestDraft& draft);
Result<void> read_prompt(const Json& value, RequestDraft& draft);
Result<void> read_messages(const Json& value, RequestDraft& draft);
Result<void> read_max_tokens(const Json& value, RequestDraft& draft);
Result<void> read_max_completion_tokens(const Json& value, RequestDraft& draft);
Result<void> read_temperature(const Json& value, RequestDraft& draft);
Result<void> read_top_p(const Json& value, RequestDraft& draft);
Result<void> read_top_k(const Json& value, RequestDraft& draft);
Result<void> read_min_p(const Json& value, RequestDraft& draft);
Result<void> read_presence_penalty(const Json& value, RequestDraft& draft);
Result<void> read_frequency_penalty(const Json& value, RequestDraft& draft);
Result<void> read_repetition_penalty(const Json& value, RequestDraft& draft);
Result<void> read_logit_bias(const Json& value, RequestDraft& draft);
Result<void> read_allowed_token_ids(const Json& value, RequestDraft& draft);
Result<void> read_banned_token_ids(const Json& value, RequestDraft& draft);
Result<void> read_bad_words(const Json& value, RequestDraft& draft);
Result<void> read_seed(const Json& value, RequestDraft& draft);
Result<void> read_stop(const Json& value, RequestDraft& draft);
Result<void> read_stop_sequences(const Json& value, RequestDraft& draft);
Result<void> read_include_stop(const Json& value, RequestDraft& draft);
Result<void> read_stop_token_ids(const Json& value, RequestDraft& draft);
Result<void> read_min_tokens(const Json& value, RequestDraft& draft);
Result<void> read_ignore_eos(const Json& value, RequestDraft& draft);
Result<void> read_speculate(const Json& value, RequestDraft& draft);
Result<void> read_n(const Json& value, RequestDraft& draft);
Result<void> read_best_of(const Json& value, RequestDraft& draft);
Result<void> read_logprobs(const Json& value, RequestDraft& draft);
Result<void> read_chat_logprobs(const Json& value, RequestDraft& draft);
Result<void> read_top_logprobs(const Json& value, RequestDraft& draft);
Result<void> read_prompt_logprobs(const Json& value, RequestDraft& draft);
Result<void> read_receipt(const Json& value, RequestDraft& draft);
Result<void> read_stream(const Json& value, RequestDraft& draft);
Result<void> read_stream_options(const Json& value, RequestDraft& draft);
Result<void> read_user(const Json& value, RequestDraft& draft);
Result<void> read_request_id(const Json& value, RequestDraft& draft);
Result<void> read_priority(const Json& value, RequestDraft& draft);
Result<void> read_cache_salt(const Json& value, RequestDraft& draft);
Result<void> read_thinking(const Json& value, RequestDraft& draft);
Result<void> read_echo(const Json& value, RequestDraft& draft);
Result<void> read_add_special_tokens(const Json& value, RequestDraft& draft);
Result<void> read_return_token_ids(const Json& value, RequestDraft& draft);
Result<void> read_tokens_as_ids(const Json& value, RequestDraft& draft);
Result<void> read_include_reasoning(const Json& value, RequestDraft& draft);
Result<void> read_response_format(const Json& value, RequestDraft& draft);
Result<void> read_structured_outputs(const Json& value, RequestDraft& draft);
Result<void> read_guided_json(const Json& value, RequestDraft& draft);
Result<void> read_guided_regex(const Json& value, RequestDraft& draft);
Result<void> read_guided_choice(const Json& value, RequestDraft& draft);
Result<void> read_guided_grammar(const Json& value, RequestDraft& draft);
Result<void> read_tools(const Json& value, RequestDraft& draft);
Result<void> read_tool_choice(const Json& value, RequestDraft& draft);
Result<void> read_parallel_tool_calls(const Json& value, RequestDraft& draft);
Result<void> read_drop_thinking(const Json& value, RequestDraft& draft);
Result<void> read_continue_final_message(const Json& value, RequestDraft& draft);
Result<void> read_add_generation_prompt(const Json& value, RequestDraft& draft);
Result<void> read_template_kwargs(const Json& value, RequestDraft& draft);
Result<void> read_reasoning_effort(const Json& value, RequestDraft& draft);

/// What is wrong with `tools` as a whole: that it is no array, or has more than a request may have.
Result<void> check_tools(const Json& value);

/// "param[index]": the place of an item.
std::string item_of(const std::string& param, size_t index);

/// The member of that name, or null where it is absent or null.
const Json* find_member(const Json& object, const char* name);

/// A member that must be a string. `param` is the place of the object.
Result<std::string> required_string(const Json& object, const char* name, const std::string& param);

/// A member that is a string, absent or null. `param` is the place of the object.
Result<std::optional<std::string>> optional_string(const Json& object, const char* name,
                                                   const std::string& param);

/// A member that must be an object. `param` is the place of the object that has it.
Result<const Json*> required_object(const Json& object, const char* name, const std::string& param);

/// A member that is a boolean, absent or null. `param` is the place of the object.
Result<std::optional<bool>> optional_bool(const Json& object, const char* name,
                                          const std::string& param);

/// A wrong value: "<param>: expected <expected>, found <what it is>".
Error wrong_value(const std::string& param, const std::string& expected, const Json& found);

/// Something known but not built: "<param>: <what> not supported yet".
Error not_supported(const std::string& param, const std::string& what);

/// A short description of a value for an error: its kind, and small scalars themselves.
std::string describe(const Json& value);

}  // namespace stoker
