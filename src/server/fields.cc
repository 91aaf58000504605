#include "server/fields.h"

#include "base/check.h"
#include "server/anthropic_reader.h"
#include "server/field_readers.h"

namespace stoker {
namespace {

// Source of the names: the request bodies of OpenAI's API, of DeepSeek's and of the common
// extensions to them. A name that is in none of these is ignored and logged; a name that is here
// and not supported is refused, unless its value says what happens anyway.
constexpr Field kFields[] = {
    {"model", true, true, read_model, "a served name", "empty or absent: the model that is served",
     true},
    {"prompt", true, false, read_prompt, "string, [string], [int], [[int]]",
     "required; several prompts give several choices, in their order"},
    {"messages", false, true, read_messages, "[message]", "required; see Messages below"},
    {"max_tokens", true, true, read_max_tokens, "int >= 1",
     "default 16 for completions (there also 0, with `echo`), what is left of the context for "
     "chat"},
    {"max_completion_tokens", true, true, read_max_completion_tokens, "int >= 1",
     "as `max_tokens`, and wins over it"},
    {"temperature", true, true, read_temperature, "number >= 0", "0 takes the likeliest token",
     true},
    {"top_p", true, true, read_top_p, "number in (0, 1]", "", true},
    {"top_k", true, true, read_top_k, "int >= 1, or 0 or -1 for off", "", true},
    {"min_p", true, true, read_min_p, "number in [0, 1]", "0 is off"},
    {"presence_penalty", true, true, read_presence_penalty, "number in [-2, 2]", ""},
    {"frequency_penalty", true, true, read_frequency_penalty, "number in [-2, 2]", ""},
    {"repetition_penalty", true, true, read_repetition_penalty, "number in [1e-6, 1e6]",
     "of tokens of the prompt or the answer; 1 is off"},
    {"logit_bias", true, true, read_logit_bias, "{id: number in [-100, 100]}, up to 1024 of them",
     "-100 bans"},
    {"allowed_token_ids", true, true, read_allowed_token_ids, "[int], at least one",
     "all others are banned"},
    {"banned_token_ids", true, true, read_banned_token_ids, "[int]", ""},
    {"bad_words", true, true, read_bad_words, "[string], up to 1024 of 256 bytes",
     "their tokens may not follow each other in the answer"},
    {"seed", true, true, read_seed, "int64", "told back as `seed` in the answer, drawn or given"},
    {"stop", true, true, read_stop, "string, or up to 16 of them, of 256 bytes each",
     "empty strings are dropped; the text is cut before the match"},
    {"include_stop_str_in_output", true, true, read_include_stop, "bool",
     "the text is cut behind the match"},
    {"stop_token_ids", true, true, read_stop_token_ids, "[int], up to 1024 of them",
     "they end the answer and are not shown"},
    {"min_tokens", true, true, read_min_tokens, "int from 0 to `max_tokens`",
     "before so many neither the end of text, nor a stop"},
    {"ignore_eos", true, true, read_ignore_eos, "bool", "the end of text ends nothing"},
    {"n", true, true, read_n, "int from 1 to 128",
     "choices of each prompt, with seeds of their own; the first is that of `n: 1`"},
    {"best_of", true, false, read_best_of, "int from `n` to 128",
     "of so many the n of the highest mean log-probability; more than n only without `stream`"},
    {"best_of", false, true, nullptr, "[1]", "the best of several answers"},
    {"logprobs", true, false, read_logprobs, "int from 0 to 20, or false",
     "of each token, with so many of the likeliest"},
    {"logprobs", false, true, read_chat_logprobs, "bool", "of each token"},
    {"top_logprobs", false, true, read_top_logprobs, "int from 0 to 20",
     "so many of the likeliest with each; only with `logprobs: true`"},
    {"prompt_logprobs", true, true, read_prompt_logprobs, "int from 0 to 20",
     "of the prompt's tokens; only without `stream`"},
    {"echo", true, false, read_echo, "bool",
     "the prompt in front of the answer, its tokens in `logprobs` too; those not with `stream`"},
    {"echo", false, true, nullptr, "[false]", "the prompt in the answer"},
    {"add_special_tokens", true, false, read_add_special_tokens, "bool",
     "true: the token that begins a text in front of a string that does not begin with it"},
    {"add_special_tokens", false, true, nullptr, "[false]", "control tokens put into the prompt"},
    {"return_token_ids", true, true, read_return_token_ids, "bool",
     "`prompt_token_ids` and `token_ids`"},
    {"return_tokens_as_token_ids", true, true, read_tokens_as_ids, "bool",
     "in `logprobs`, `token_id:7` for the text of token 7"},
    {"response_format", true, true, read_response_format,
     "{type: text, json_object or json_schema, json_schema: {schema}}",
     "nothing else is chosen ([structured.md](structured.md)); a chat's prompt tells it too"},
    {"structured_outputs", true, true, read_structured_outputs,
     "{json, regex, choice, grammar or json_object}",
     "one of them, not told in the prompt; with `disable_any_whitespace`, "
     "`disable_additional_properties`"},
    {"guided_json", true, true, read_guided_json, "a JSON schema", "as `structured_outputs.json`"},
    {"guided_regex", true, true, read_guided_regex, "string", "as `structured_outputs.regex`"},
    {"guided_choice", true, true, read_guided_choice, "[string]", "as `structured_outputs.choice`"},
    {"guided_grammar", true, true, read_guided_grammar, "string",
     "as `structured_outputs.grammar`"},
    {"guided_decoding_backend", true, true, read_user, "string", "has no effect"},
    {"speculate", true, true, read_speculate, "bool",
     "false: no drafts are made for it; its answer is the same"},
    {"receipt", true, true, read_receipt, "bool",
     "in each choice, what `stoker replay` gives the same answer again by"},
    {"stream", true, true, read_stream, "bool", "", true},
    {"stream_options", true, true, read_stream_options, "{include_usage, continuous_usage_stats}",
     "bools; only with `stream: true`"},
    {"user", true, true, read_user, "string", "has no effect"},
    {"request_id", true, true, read_request_id, "1 to 128 visible ASCII characters",
     "for the answer's `id`, where there is no X-Request-Id header"},
    {"priority", true, true, read_priority, "int32",
     "lower is served first; not 0 only with `--scheduling-policy priority`, but for 2147483647: "
     "behind all"},
    {"cache_salt", true, true, read_cache_salt, "string of 1 to 256 bytes",
     "cached prefixes are shared under the same salt alone"},
    {"thinking", false, true, read_thinking, "{type}", "`enabled`, `disabled` or `adaptive`"},
    {"reasoning_effort", false, true, read_reasoning_effort, "string or int",
     "`none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`, `ultra`, or 1 to 100"},

    {"tools", false, true, read_tools, "[{type: function, function}], up to 128 of them",
     "what the model may call; see Tools below"},
    {"tool_choice", false, true, read_tool_choice,
     "`auto`, `none`, `required` or {type: function, function: {name}}",
     "with `required` and a name, a call comes, whose parameters its schema allows"},
    {"parallel_tool_calls", false, true, read_parallel_tool_calls, "bool",
     "false: the answer ends behind its first call"},
    {"continue_final_message", false, true, read_continue_final_message, "bool",
     "the answer goes on where the last message, an assistant's, ends"},
    {"add_generation_prompt", false, true, read_add_generation_prompt, "bool",
     "false only with `continue_final_message` or `prefix`"},
    {"drop_thinking", false, true, read_drop_thinking, "bool",
     "false: old reasoning stays in the prompt, as it does with tools"},
    {"clear_thinking", false, true, read_drop_thinking, "bool", "the same"},
    {"chat_template_kwargs", false, true, read_template_kwargs,
     "{thinking, enable_thinking, reasoning_effort}",
     "bools that agree, and an effort; where `thinking` and `reasoning_effort` do not say it"},
    {"include_reasoning", false, true, read_include_reasoning, "bool",
     "false: the reasoning is not told; its tokens count"},

    {"use_beam_search", true, true, nullptr, "[false]", "beam search"},
    {"length_penalty", true, true, nullptr, "[1]", "beam search"},
    {"logprobs_scope", false, true, nullptr, R"(["content"])", "log-probabilities"},
    {"logits_processors", true, true, nullptr, "[[]]", "sampling"},
    {"stop_scope", false, true, nullptr, R"(["content"])", "stopping"},
    {"max_repetition_pattern_size", true, true, nullptr, "[0]", "stopping"},
    {"min_repetition_pattern_size", true, true, nullptr, "[0]", "stopping"},
    {"repetition_min_count", true, true, nullptr, "[0]", "stopping"},
    {"repetition_detection", true, true, nullptr, "[]", "stopping"},
    {"thinking_token_budget", true, true, nullptr, "[-1]", "stopping"},
    {"suffix", true, false, nullptr, R"([""])", "fill in the middle"},
    {"truncate_prompt_tokens", true, true, nullptr, "[]", "the end of a long prompt"},
    {"prompt_embeds", true, false, nullptr, "[]", "prompts that are no ids"},
    {"skip_special_tokens", true, true, nullptr, "[true]", "control tokens in the answer"},
    {"spaces_between_special_tokens", true, true, nullptr, "[true]",
     "control tokens in the answer"},
    {"guided_whitespace_pattern", true, true, nullptr, "[]", "structured output"},
    {"functions", false, true, nullptr, "[[]]", "tool calls"},
    {"function_call", false, true, nullptr, R"(["none","auto"])", "tool calls"},
    {"chat_template", false, true, nullptr, "[]", "another prompt format"},
    {"documents", false, true, nullptr, "[[]]", "another prompt format"},
    {"task", false, true, nullptr, "[]", "another prompt format"},
    {"mm_processor_kwargs", false, true, nullptr, "[{}]", "images"},
    {"return_progress", true, true, nullptr, "[false]", "progress while the prompt is read"},
    {"sse_ping_interval", true, true, nullptr, "[]", "another interval of pings"},
    {"kv_transfer_params", true, true, nullptr, "[]", "prefill on another machine"},
    {"vllm_xargs", true, true, nullptr, "[{}]", "arguments of plug-ins"},

    // Of /v1/messages alone. Source of the names: the types of Anthropic's client for Python.
    {"messages", false, false, read_anthropic_messages, "[message]",
     "required; their blocks are below", true},
    {"max_tokens", false, false, read_token_limit, "int >= 1", "required but to count tokens",
     true},
    {"system", false, false, read_system, "string or [text block]",
     "stands in front of the messages", true},
    {"stop_sequences", false, false, read_stop_sequences, "[string], up to 16 of 256 bytes each",
     "empty ones are dropped; the text is cut before the match", true},
    {"thinking", false, false, read_thinking_config, "{type, budget_tokens, display}",
     "`enabled`, `adaptive` or `disabled`, which is the default; the budget bounds nothing; "
     "`display: omitted` leaves the text away",
     true},
    {"tools", false, false, read_anthropic_tools,
     "[{name, description, input_schema, strict}], up to 128 of them",
     "tools of the client alone: `type` is absent or `custom`", true},
    {"tool_choice", false, false, read_anthropic_tool_choice,
     "{type, name, disable_parallel_tool_use}",
     "`auto`, `any`, `tool` or `none`; `any` and `tool` only where thinking is off", true},
    {"output_config", false, false, read_output_config, "{effort}",
     "`low`, `medium`, `high`, `xhigh` or `max`, where thinking is on; `format` and `task_budget` "
     "are refused",
     true},
    {"context_management", false, false, read_context_management, "{edits}",
     "none, or `clear_thinking_20251015` with `keep: all`: old reasoning stays in the prompt",
     true},
    {"metadata", false, false, read_metadata, "object", "has no effect", true},
    {"diagnostics", false, false, read_diagnostics, "object", "has no effect", true},
    {"service_tier", false, false, read_service_tier, "string", "has no effect", true},
    {"cache_control", false, false, read_cache_control, "object",
     "has no effect, on blocks and tools too: prefixes are cached by themselves", true},
    {"container", false, false, nullptr, "[]", "a machine of the server's", true},
    {"mcp_servers", false, false, nullptr, "[[]]", "tools of other servers", true},
    {"output_format", false, false, nullptr, "[]", "structured output", true},
    {"speed", false, false, nullptr, R"(["standard"])", "faster answers at a price", true},
    {"inference_geo", false, false, nullptr, "[]", "where it is computed", true},
    {"compaction", false, false, nullptr, "[]", "a conversation that is summed up", true},
    {"thread", false, false, nullptr, "[]", "conversations that are kept", true},
    {"fallbacks", false, false, nullptr, "[[]]", "other models", true},
};

bool is_on(const Field& field, Route route) {
  switch (route) {
    case Route::kCompletions:
      return field.in_completions;
    case Route::kChat:
      return field.in_chat;
    case Route::kMessages:
    case Route::kCountTokens:
      break;
  }
  return field.in_messages;
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

std::span<const Field> request_fields() {
  return kFields;
}

const Field* find_field(Route route, std::string_view name) {
  for (const Field& field : kFields) {
    if (name == field.name && is_on(field, route)) return &field;
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

std::string request_fields_markdown() {
  std::string text =
      "| Field | Completions | Chat | Takes | Notes |\n| --- | --- | --- | --- | --- |\n";
  for (const Field& field : kFields) {
    if (!field.in_completions && !field.in_chat) continue;
    const char* there = field.read != nullptr ? "yes" : "refused";
    text += "| `" + std::string(field.name) + "` | " + (field.in_completions ? there : "-") +
            " | " + (field.in_chat ? there : "-") + " | " + takes_markdown(field);
  }
  return text;
}

std::string messages_fields_markdown() {
  std::string text = "| Field | There | Takes | Notes |\n| --- | --- | --- | --- |\n";
  for (const Field& field : kFields) {
    if (!field.in_messages) continue;
    text += "| `" + std::string(field.name) + "` | " + (field.read != nullptr ? "yes" : "refused") +
            " | " + takes_markdown(field);
  }
  return text;
}

}  // namespace stoker
