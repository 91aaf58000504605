#include "server/field_readers.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/try.h"

namespace stoker {
namespace {

constexpr size_t kMaxPrompts = 2048;
constexpr size_t kMaxShownKeyBytes = 40;
constexpr std::string_view kScopes[] = {"content", "all"};

Result<bool> bool_of(const Json& value, const std::string& param) {
  if (!value.is_bool()) return wrong_value(param, "a boolean", value);
  return value.as_bool();
}

Result<int32_t> int_of(const Json& value, const std::string& param, int32_t min,
                       const std::string& expected) {
  const auto number = value.as_int();
  if (!number || *number < min || *number > std::numeric_limits<int32_t>::max()) {
    return wrong_value(param, expected, value);
  }
  return static_cast<int32_t>(*number);
}

Result<double> double_of(const Json& value, const std::string& param, const std::string& expected) {
  const auto number = value.as_double();
  if (!number) return wrong_value(param, expected, value);
  return *number;
}

Result<double> double_within(const Json& value, const std::string& param, double least, double most,
                             const std::string& expected) {
  TRY_ASSIGN(const double number, double_of(value, param, expected));
  if (!(number >= least && number <= most)) return wrong_value(param, expected, value);
  return number;
}

// From 0 or 1 to a most that request.h has.
Result<int32_t> count_of(const Json& value, const std::string& param, int32_t least, int32_t most) {
  const std::string expected =
      "an integer from " + std::to_string(least) + " to " + std::to_string(most);
  TRY_ASSIGN(const int32_t count, int_of(value, param, least, expected));
  if (count > most) return wrong_value(param, expected, value);
  return count;
}

// A name, or a number in decimal.
Result<std::string> effort_of(const Json& value, const std::string& param) {
  if (value.is_string()) return value.as_string();
  const auto number = value.as_int();
  if (!number) return wrong_value(param, "a string or an integer", value);
  return std::to_string(*number);
}

// Empty ones are dropped. is_single: `param` is the place of the one there is.
Result<void> read_stops(std::span<const Json> items, const std::string& name, bool is_single,
                        RequestDraft& draft) {
  draft.request.stop.clear();
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string param = is_single ? name : item_of(name, i);
    if (!items[i].is_string()) return wrong_value(param, "a string", items[i]);
    const std::string& text = items[i].as_string();
    if (text.empty()) continue;
    if (text.size() > kMaxStopBytes || draft.request.stop.size() == kMaxStops) {
      return Error{ErrorCode::kInvalidArgument,
                   param + ": expected at most 16 stop strings of at most 256 bytes", param};
    }
    draft.request.stop.push_back(text);
  }
  return {};
}

bool is_ids(const Json& value) {
  return value.is_array() && !value.items().empty() && value.items().front().is_number();
}

}  // namespace

Result<std::vector<int32_t>> read_ids(const Json& value, const std::string& param) {
  if (!value.is_array()) return wrong_value(param, "an array of token ids", value);
  std::vector<int32_t> ids;
  ids.reserve(value.items().size());
  for (size_t i = 0; i < value.items().size(); ++i) {
    const Json& item = value.items()[i];
    TRY_ASSIGN(const int32_t id, int_of(item, item_of(param, i), 0, "a token id"));
    ids.push_back(id);
  }
  return ids;
}

Result<int32_t> read_count_from_1(const Json& value, const std::string& param) {
  return int_of(value, param, 1, "an integer from 1 to 2147483647");
}

Result<void> read_model(const Json& value, RequestDraft& draft) {
  if (!value.is_string()) return wrong_value("model", "a string", value);
  draft.parsed.form.model = value.as_string();
  return {};
}

Result<void> read_prompt(const Json& value, RequestDraft& draft) {
  const char* expected = "a string, an array of strings, of token ids, or of arrays of token ids";
  if (value.is_string()) {
    draft.prompts = {TextPrompt{value.as_string()}};
    return {};
  }
  if (!value.is_array() || value.items().empty()) return wrong_value("prompt", expected, value);
  if (is_ids(value)) {
    TRY_ASSIGN(auto ids, read_ids(value, "prompt"));
    draft.prompts = {TokenPrompt{std::move(ids)}};
    return {};
  }
  if (value.items().size() > kMaxPrompts) {
    return Error{ErrorCode::kInvalidArgument,
                 "prompt: expected at most " + std::to_string(kMaxPrompts) + " prompts, found " +
                     std::to_string(value.items().size()),
                 "prompt"};
  }
  draft.prompts.clear();
  for (size_t i = 0; i < value.items().size(); ++i) {
    const Json& item = value.items()[i];
    if (item.is_string()) {
      draft.prompts.emplace_back(TextPrompt{item.as_string()});
    } else if (is_ids(item)) {
      TRY_ASSIGN(auto ids, read_ids(item, item_of("prompt", i)));
      draft.prompts.emplace_back(TokenPrompt{std::move(ids)});
    } else {
      return wrong_value(item_of("prompt", i), "a string or an array of token ids", item);
    }
    if (draft.prompts.back().index() != draft.prompts.front().index()) {
      return wrong_value(item_of("prompt", i), "the same kind of prompt as prompt[0]", item);
    }
  }
  return {};
}

Result<void> read_max_tokens(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.max_tokens,
             int_of(value, "max_tokens", 0, "an integer from 0 to 2147483647"));
  return {};
}

Result<void> read_truncate_prompt(const Json& value, RequestDraft& draft) {
  constexpr const char* kExpected = "an integer >= 1, or -1";
  TRY_ASSIGN(const int32_t kept, int_of(value, "truncate_prompt_tokens", -1, kExpected));
  if (kept == 0) return wrong_value("truncate_prompt_tokens", kExpected, value);
  draft.request.truncate_prompt_tokens = kept;
  return {};
}

Result<void> read_max_completion_tokens(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.max_completion_tokens, read_count_from_1(value, "max_completion_tokens"));
  return {};
}

Result<void> read_temperature(const Json& value, RequestDraft& draft) {
  const char* expected = "a number >= 0";
  TRY_ASSIGN(const double temperature, double_of(value, "temperature", expected));
  if (temperature < 0) return wrong_value("temperature", expected, value);
  draft.request.sampling.temperature = temperature;
  return {};
}

Result<void> read_top_p(const Json& value, RequestDraft& draft) {
  const char* expected = "a number in (0, 1]";
  TRY_ASSIGN(const double top_p, double_of(value, "top_p", expected));
  if (top_p <= 0 || top_p > 1) return wrong_value("top_p", expected, value);
  draft.request.sampling.top_p = top_p;
  return {};
}

Result<void> read_top_k(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.sampling.top_k,
             int_of(value, "top_k", -1, "an integer >= 1, or 0 or -1"));
  return {};
}

Result<void> read_min_p(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.sampling.min_p,
             double_within(value, "min_p", 0, 1, "a number in [0, 1]"));
  return {};
}

Result<void> read_presence_penalty(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.sampling.presence_penalty,
             double_within(value, "presence_penalty", -2, 2, "a number in [-2, 2]"));
  return {};
}

Result<void> read_frequency_penalty(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.sampling.frequency_penalty,
             double_within(value, "frequency_penalty", -2, 2, "a number in [-2, 2]"));
  return {};
}

Result<void> read_repetition_penalty(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.sampling.repetition_penalty,
             double_within(value, "repetition_penalty", 1e-6, 1e6, "a number in [1e-6, 1e6]"));
  return {};
}

// Keys are ids in decimal.
Result<void> read_logit_bias(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value("logit_bias", "an object", value);
  for (const auto& [key, bias] : value.members()) {
    const std::string param = "logit_bias." + key.substr(0, kMaxShownKeyBytes);
    int32_t id = 0;
    const char* end = key.data() + key.size();
    const auto [stop, code] = std::from_chars(key.data(), end, id);
    if (code != std::errc() || stop != end || id < 0) {
      return Error{ErrorCode::kInvalidArgument,
                   param + ": expected a token id as key, found " +
                       json_quote(key.substr(0, kMaxShownKeyBytes)),
                   param};
    }
    TRY_ASSIGN(draft.request.sampling.logit_bias[id],
               double_within(bias, param, -100, 100, "a number in [-100, 100]"));
  }
  return {};
}

Result<void> read_allowed_token_ids(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.sampling.allowed_token_ids, read_ids(value, "allowed_token_ids"));
  if (!draft.request.sampling.allowed_token_ids.empty()) return {};
  return wrong_value("allowed_token_ids", "at least one token id", value);
}

Result<void> read_banned_token_ids(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.sampling.banned_token_ids, read_ids(value, "banned_token_ids"));
  return {};
}

Result<void> read_bad_words(const Json& value, RequestDraft& draft) {
  if (!value.is_array()) return wrong_value("bad_words", "an array of strings", value);
  auto& words = draft.request.sampling.bad_words;
  for (size_t i = 0; i < value.items().size(); ++i) {
    const Json& item = value.items()[i];
    if (!item.is_string()) return wrong_value(item_of("bad_words", i), "a string", item);
    words.push_back(item.as_string());
  }
  return {};
}

Result<void> read_seed(const Json& value, RequestDraft& draft) {
  const auto seed = value.as_int();
  if (!seed) return wrong_value("seed", "an integer of 64 bits", value);
  draft.request.sampling.seed = static_cast<uint64_t>(*seed);
  return {};
}

Result<void> read_stop(const Json& value, RequestDraft& draft) {
  if (value.is_string()) return read_stops(std::span(&value, 1), "stop", true, draft);
  if (value.is_array()) return read_stops(value.items(), "stop", false, draft);
  return wrong_value("stop", "a string or an array of strings", value);
}

Result<void> read_stop_sequences(const Json& value, RequestDraft& draft) {
  if (value.is_array()) return read_stops(value.items(), "stop_sequences", false, draft);
  return wrong_value("stop_sequences", "an array of strings", value);
}

Result<void> read_stop_scope(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(const std::string scope, word_of(value, "stop_scope", kScopes));
  draft.request.stop_everywhere = scope == "all";
  return {};
}

Result<void> read_logprobs_scope(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(const std::string scope, word_of(value, "logprobs_scope", kScopes));
  draft.parsed.form.all_logprobs = scope == "all";
  return {};
}

Result<void> read_include_stop(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.include_stop_str_in_output,
             bool_of(value, "include_stop_str_in_output"));
  return {};
}

Result<void> read_stop_token_ids(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.stop_token_ids, read_ids(value, "stop_token_ids"));
  return {};
}

Result<void> read_min_tokens(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.min_tokens, int_of(value, "min_tokens", 0, "an integer >= 0"));
  return {};
}

Result<void> read_ignore_eos(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.ignore_eos, bool_of(value, "ignore_eos"));
  return {};
}

Result<void> read_repetition_detection(const Json& value, RequestDraft& draft) {
  constexpr const char* kName = "repetition_detection";
  if (!value.is_object()) return wrong_value(kName, "an object", value);
  RepetitionDetection detection;
  TRY_ASSIGN(detection.max_pattern_size,
             int_or_0(value, "max_pattern_size", kName, 0, kMaxPatternSize));
  TRY_ASSIGN(detection.min_pattern_size,
             int_or_0(value, "min_pattern_size", kName, 0, detection.max_pattern_size));
  TRY_ASSIGN(detection.min_count, int_or_0(value, "min_count", kName,
                                           detection.max_pattern_size > 0 ? 2 : 0, INT32_MAX));
  draft.request.repetition_detection = detection;
  return {};
}

Result<void> read_max_repetition_size(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.repetition.max_pattern_size,
             count_of(value, "max_repetition_pattern_size", 0, kMaxPatternSize));
  return {};
}

Result<void> read_min_repetition_size(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.repetition.min_pattern_size,
             count_of(value, "min_repetition_pattern_size", 0, kMaxPatternSize));
  return {};
}

Result<void> read_repetition_count(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.repetition.min_count,
             int_of(value, "repetition_min_count", 0, "an integer from 0 to 2147483647"));
  return {};
}

Result<void> read_thinking_budget(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(const int32_t budget,
             int_of(value, "thinking_token_budget", -1, "an integer >= 0, or -1 for no limit"));
  if (budget >= 0) draft.request.thinking_token_budget = budget;
  return {};
}

Result<void> read_speculate(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.speculate, bool_of(value, "speculate"));
  return {};
}

Result<void> read_n(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.n, count_of(value, "n", 1, kMaxChoices));
  return {};
}

Result<void> read_best_of(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.best_of, count_of(value, "best_of", 1, kMaxChoices));
  return {};
}

Result<void> read_logprobs(const Json& value, RequestDraft& draft) {
  if (value.is_bool() && !value.as_bool()) return {};  // what a chat has for none
  TRY_ASSIGN(draft.request.logprobs, count_of(value, "logprobs", 0, kMaxLogprobs));
  draft.parsed.form.logprobs = true;
  return {};
}

Result<void> read_chat_logprobs(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.parsed.form.logprobs, bool_of(value, "logprobs"));
  return {};
}

Result<void> read_top_logprobs(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.top_logprobs, count_of(value, "top_logprobs", 0, kMaxLogprobs));
  return {};
}

Result<void> read_prompt_logprobs(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.prompt_logprobs, count_of(value, "prompt_logprobs", 0, kMaxLogprobs));
  draft.parsed.form.prompt_logprobs = true;
  return {};
}

Result<void> read_receipt(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.receipt, bool_of(value, "receipt"));
  return {};
}

Result<void> read_stream(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.parsed.form.stream, bool_of(value, "stream"));
  return {};
}

Result<void> read_return_progress(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.return_progress, bool_of(value, "return_progress"));
  return {};
}

Result<void> read_stream_options(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value("stream_options", "an object", value);
  draft.has_stream_options = true;
  for (const auto& [name, target] :
       {std::pair{"include_usage", &draft.parsed.form.include_usage},
        std::pair{"continuous_usage_stats", &draft.parsed.form.continuous_usage_stats}}) {
    TRY_ASSIGN(const auto member, optional_bool(value, name, "stream_options"));
    if (member) *target = *member;
  }
  return {};
}

Result<void> read_user(const Json& value, RequestDraft& /*draft*/) {
  if (!value.is_string()) return wrong_value("user", "a string", value);
  return {};
}

Result<void> read_request_id(const Json& value, RequestDraft& draft) {
  const std::string& id = value.as_string();
  const bool is_visible =
      std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (!value.is_string() || id.empty() || id.size() > 128 || !is_visible) {
    return wrong_value("request_id", "1 to 128 visible ASCII characters", value);
  }
  draft.parsed.request_id = id;
  return {};
}

Result<void> read_priority(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.request.priority,
             int_of(value, "priority", INT32_MIN, "an integer from -2147483648 to 2147483647"));
  return {};
}

Result<void> read_cache_salt(const Json& value, RequestDraft& draft) {
  if (!value.is_string() || value.as_string().empty() || value.as_string().size() > kMaxSaltBytes) {
    return wrong_value("cache_salt", "a string of 1 to 256 bytes", value);
  }
  draft.request.cache_salt = value.as_string();
  return {};
}

Result<void> read_thinking(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value("thinking", "an object", value);
  TRY_ASSIGN(draft.chat.thinking, required_string(value, "type", "thinking"));
  return {};
}

Result<void> read_echo(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.parsed.form.echo, bool_of(value, "echo"));
  return {};
}

Result<void> read_add_special_tokens(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.add_special_tokens, bool_of(value, "add_special_tokens"));
  return {};
}

Result<void> read_return_token_ids(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.parsed.form.return_token_ids, bool_of(value, "return_token_ids"));
  return {};
}

Result<void> read_tokens_as_ids(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.parsed.form.tokens_as_ids, bool_of(value, "return_tokens_as_token_ids"));
  return {};
}

Result<void> read_include_reasoning(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.parsed.form.include_reasoning, bool_of(value, "include_reasoning"));
  return {};
}

Result<void> read_parallel_tool_calls(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.chat.parallel_tool_calls, bool_of(value, "parallel_tool_calls"));
  return {};
}

Result<void> read_drop_thinking(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(const bool drop, bool_of(value, "drop_thinking"));
  draft.chat.keep_reasoning = !drop;
  return {};
}

Result<void> read_continue_final_message(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.continue_final_message, bool_of(value, "continue_final_message"));
  return {};
}

Result<void> read_add_generation_prompt(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.add_generation_prompt, bool_of(value, "add_generation_prompt"));
  return {};
}

// What vLLM's clients say there of thinking. Other arguments are of other templates.
Result<void> read_template_kwargs(const Json& value, RequestDraft& draft) {
  if (!value.is_object()) return wrong_value("chat_template_kwargs", "an object", value);
  std::optional<bool> thinking;
  for (const char* name : {"thinking", "enable_thinking"}) {
    TRY_ASSIGN(const auto on, optional_bool(value, name, "chat_template_kwargs"));
    if (!on) continue;
    if (thinking && *thinking != *on)
      return wrong_value(std::string("chat_template_kwargs.") + name,
                         "the same as chat_template_kwargs.thinking", Json::boolean(*on));
    thinking = on;
  }
  draft.template_thinking = thinking;
  const Json* effort = find_member(value, "reasoning_effort");
  if (effort == nullptr) return {};
  TRY_ASSIGN(draft.template_effort, effort_of(*effort, "chat_template_kwargs.reasoning_effort"));
  return {};
}

Result<void> read_reasoning_effort(const Json& value, RequestDraft& draft) {
  TRY_ASSIGN(draft.chat.reasoning_effort, effort_of(value, "reasoning_effort"));
  return {};
}

}  // namespace stoker
