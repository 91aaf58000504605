// Readers of single fields of a request body: types are strict, ranges are checked, errors name the
// place.
#pragma once

#include <string>
#include <vector>

#include "server/fields.h"
#include "server/member_readers.h"

namespace stoker {

// Each is a FieldReader; its row in field_table.cc says what it takes.
Result<void> read_model(const Json& value, RequestDraft& draft);
Result<void> read_prompt(const Json& value, RequestDraft& draft);
Result<void> read_messages(const Json& value, RequestDraft& draft);
Result<void> read_max_tokens(const Json& value, RequestDraft& draft);
Result<void> read_truncate_prompt(const Json& value, RequestDraft& draft);
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
Result<void> read_stop_scope(const Json& value, RequestDraft& draft);
Result<void> read_logprobs_scope(const Json& value, RequestDraft& draft);
Result<void> read_include_stop(const Json& value, RequestDraft& draft);
Result<void> read_stop_token_ids(const Json& value, RequestDraft& draft);
Result<void> read_min_tokens(const Json& value, RequestDraft& draft);
Result<void> read_repetition_detection(const Json& value, RequestDraft& draft);
Result<void> read_max_repetition_size(const Json& value, RequestDraft& draft);
Result<void> read_min_repetition_size(const Json& value, RequestDraft& draft);
Result<void> read_repetition_count(const Json& value, RequestDraft& draft);
Result<void> read_thinking_budget(const Json& value, RequestDraft& draft);
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
Result<void> read_return_progress(const Json& value, RequestDraft& draft);
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
Result<void> read_flat_tools(const Json& value, RequestDraft& draft);
Result<void> read_flat_tool_choice(const Json& value, RequestDraft& draft);

/// Token ids, none below 0; perhaps none at all. `param` is the place of the array.
Result<std::vector<int32_t>> read_ids(const Json& value, const std::string& param);

/// An integer >= 1.
Result<int32_t> read_count_from_1(const Json& value, const std::string& param);

/// {"type": "json_schema", "schema": ...}, and so on: a form whose members stand beside its type.
Result<void> read_flat_format(const Json& value, const std::string& param, RequestDraft& draft);

/// The assistant's turn that messages end with; begun where there is none.
Message& assistant_turn(std::vector<Message>& messages);

/// Appends old reasoning to that of a turn.
void add_reasoning(const std::string& text, Message& turn);

/// What is wrong with the name of a tool, which is at `param`: its letters, or that one before has
/// it.
Result<void> check_tool_name(const Tool& tool, const std::vector<Tool>& before,
                             const std::string& param);

/// What is wrong with `tools` as a whole: that it is no array, or has more than a request may have.
Result<void> check_tools(const Json& value);

}  // namespace stoker
