#include "server/request_parser.h"

#include <algorithm>
#include <utility>

#include "base/try.h"
#include "server/field_readers.h"
#include "server/fields.h"
#include "server/responses_reader.h"

namespace stoker {
namespace {

constexpr int32_t kDefaultCompletionTokens = 16;  // as OpenAI's API has it for completions
constexpr size_t kMaxUnknownFields = 16;          // that are told to the log
constexpr size_t kMaxFieldNameBytes = 64;         // of their names

bool is_anthropic(Route route) {
  return route == Route::kMessages || route == Route::kCountTokens;
}

Result<void> check_required(Route route, const Json& body) {
  for (const char* field : required_fields(route)) {
    if (find_member(body, field) != nullptr) continue;
    return Error{ErrorCode::kInvalidArgument, std::string(field) + ": expected a value, found none",
                 field};
  }
  return {};
}

Result<void> read_members(const Json& body, RequestDraft& draft) {
  for (const auto& [name, value] : body.members()) {
    const Field* field = find_field(place_of(draft.parsed.form.route), name);
    if (field != nullptr) {
      if (auto read = read_field(*field, value, draft); !read) return read;
    } else if (draft.parsed.unknown_fields.size() < kMaxUnknownFields) {
      draft.parsed.unknown_fields.push_back(name.substr(0, kMaxFieldNameBytes));
    }
  }
  return {};
}

Result<void> resolve_model(const std::vector<std::string>& names, std::string& model) {
  if (model.empty()) model = names.front();
  if (std::find(names.begin(), names.end(), model) != names.end()) return {};
  return Error{ErrorCode::kNotFound,
               "model: expected " + names.front() + ", which is what is served here, found " +
                   model.substr(0, 200),
               "model"};
}

Error no_object(const Json& body) {
  return {ErrorCode::kInvalidArgument,
          std::string("the body: expected a JSON object, found ") + body.kind_name(), ""};
}

Error contradiction(const std::string& field, const std::string& message) {
  return {ErrorCode::kInvalidArgument, field + ": " + message, field};
}

// What is told of tokens.
Result<void> combine_logprobs(RequestDraft& draft) {
  ParsedRequest& parsed = draft.parsed;
  Request& request = draft.request;
  const bool is_response = parsed.form.route == Route::kResponses;
  const bool has_switch = is_response || parsed.form.route == Route::kChat;
  if (request.prompt_logprobs && parsed.form.stream)
    return contradiction("prompt_logprobs", "expected none with stream: true, found " +
                                                std::to_string(*request.prompt_logprobs));
  if (has_switch && draft.top_logprobs.value_or(0) > 0 && !parsed.form.logprobs)
    return contradiction(
        "top_logprobs",
        std::string("expected 0 without ") +
            (is_response ? "include: [\"message.output_text.logprobs\"]" : "logprobs: true") +
            ", found " + std::to_string(*draft.top_logprobs));
  if (has_switch && parsed.form.logprobs) request.logprobs = draft.top_logprobs.value_or(0);
  parsed.form.num_top = request.logprobs.value_or(0);
  if (!parsed.form.echo || !parsed.form.logprobs) return {};
  if (parsed.form.stream)
    return contradiction("echo", "the prompt's log-probabilities are told only without stream");
  request.prompt_logprobs = std::max(request.prompt_logprobs.value_or(0), *request.logprobs);
  return {};
}

// How many answers, and how many of them are told.
Result<void> combine_choices(RequestDraft& draft) {
  ParsedRequest& parsed = draft.parsed;
  Request& request = draft.request;
  parsed.form.num_choices = request.n;
  const int32_t best_of = draft.best_of.value_or(request.n);
  if (best_of < request.n)
    return contradiction("best_of", "expected at least n, which is " + std::to_string(request.n) +
                                        ", found " + std::to_string(best_of));
  if (best_of > request.n && parsed.form.stream)
    return contradiction("best_of", "expected at most n, which is " + std::to_string(request.n) +
                                        ", with stream: true, found " + std::to_string(best_of));
  if (best_of > request.n && !request.logprobs) request.logprobs = 0;  // they are compared by it
  request.n = best_of;
  return {};
}

// The engine chooses one token at least; of none that is asked for it is not told.
Result<void> combine_lengths(RequestDraft& draft) {
  ParsedRequest& parsed = draft.parsed;
  Request& request = draft.request;
  if (draft.max_completion_tokens) request.max_tokens = draft.max_completion_tokens;
  if (request.max_tokens != 0) return {};
  if (!parsed.form.echo) {
    const bool has_echo = parsed.form.route == Route::kCompletions;
    return contradiction("max_tokens", std::string("expected at least 1, ") +
                                           (has_echo ? "or 0 with echo: true, " : "") + "found 0");
  }
  if (request.min_tokens > 0)
    return contradiction("min_tokens", "expected at most max_tokens, which is 0, found " +
                                           std::to_string(request.min_tokens));
  parsed.form.has_answer = false;
  request.max_tokens = 1;
  request.speculate = false;
  return {};
}

// The older names of repetition_detection's members.
Result<void> combine_repetition(RequestDraft& draft) {
  const RepetitionDetection& asked = draft.repetition;
  if (asked == RepetitionDetection()) return {};
  const auto found = [](int32_t number) { return ", found " + std::to_string(number); };
  if (draft.request.repetition_detection)
    return contradiction("repetition_detection",
                         "expected none beside max_repetition_pattern_size, "
                         "min_repetition_pattern_size and repetition_min_count");
  if (asked.min_pattern_size > asked.max_pattern_size)
    return contradiction("min_repetition_pattern_size",
                         "expected at most max_repetition_pattern_size, which is " +
                             std::to_string(asked.max_pattern_size) +
                             found(asked.min_pattern_size));
  if (asked.max_pattern_size > 0 && asked.min_count < 2)
    return contradiction(
        "repetition_min_count",
        "expected at least 2 with max_repetition_pattern_size" + found(asked.min_count));
  draft.request.repetition_detection = asked;
  return {};
}

// Whether the answer goes on with the last message.
Result<void> combine_continuation(RequestDraft& draft) {
  if (draft.continue_final_message && draft.add_generation_prompt.value_or(false))
    return contradiction("continue_final_message",
                         "expected false with add_generation_prompt: true, found true");
  if (!draft.continue_final_message && !draft.chat.continue_last &&
      !draft.add_generation_prompt.value_or(true))
    return contradiction("add_generation_prompt",
                         "expected true, or continue_final_message: true, found false");
  draft.chat.continue_last = draft.chat.continue_last || draft.continue_final_message;
  return {};
}

// chat_template_kwargs, where the fields of their own do not say it.
void combine_thinking(RequestDraft& draft) {
  if (!draft.chat.thinking && draft.template_thinking)
    draft.chat.thinking = *draft.template_thinking ? "enabled" : "disabled";
  if (!draft.chat.reasoning_effort) draft.chat.reasoning_effort = draft.template_effort;
}

// What fields say of each other, and what stands apart from the messages.
Result<void> combine(RequestDraft& draft) {
  if (!draft.system.empty())
    draft.chat.messages.insert(draft.chat.messages.begin(), {"system", std::move(draft.system)});
  if (draft.has_stream_options && !draft.parsed.form.stream)
    return contradiction("stream_options", "only with stream: true");
  if (draft.request.return_progress && !draft.parsed.form.stream)
    return contradiction("return_progress", "expected false without stream: true, found true");
  if (is_anthropic(draft.parsed.form.route)) {
    if (!draft.chat.thinking) draft.chat.thinking = "disabled";  // as its clients expect
    return {};
  }
  if (auto combined = combine_lengths(draft); !combined) return combined;
  if (auto combined = combine_logprobs(draft); !combined) return combined;
  if (auto combined = combine_repetition(draft); !combined) return combined;
  if (auto combined = combine_continuation(draft); !combined) return combined;
  combine_thinking(draft);
  draft.parsed.form.names_tool = draft.chat.tool_choice.kind == ToolChoice::Kind::kNamed;
  for (auto& prompt : draft.prompts) {
    if (auto* text = std::get_if<TextPrompt>(&prompt)) text->add_bos = draft.add_special_tokens;
  }
  return combine_choices(draft);
}

// Puts one request for each prompt together.
void build_requests(RequestDraft draft, ParsedRequest& parsed) {
  Request& request = draft.request;
  if (draft.prompts.empty()) {
    request.prompt = std::move(draft.chat);
    parsed.requests.push_back(std::move(request));
    return;
  }
  if (parsed.form.route == Route::kCompletions && !request.max_tokens)
    request.max_tokens = kDefaultCompletionTokens;
  for (auto& prompt : draft.prompts) {
    Request one = request;
    std::visit([&one](auto& value) { one.prompt = std::move(value); }, prompt);
    parsed.requests.push_back(std::move(one));
  }
}

}  // namespace

Result<ParsedRequest> parse_request(Route route, std::string_view body,
                                    const std::vector<std::string>& model_names) {
  TRY_ASSIGN(const Json json, Json::parse(body));
  return parse_request(route, json, model_names);
}

Result<ParsedRequest> parse_request(Route route, const Json& body,
                                    const std::vector<std::string>& model_names) {
  if (!body.is_object()) return no_object(body);
  RequestDraft draft;
  draft.parsed.form.route = route;
  if (auto read = read_members(body, draft); !read) return std::move(read).error();
  if (auto found = resolve_model(model_names, draft.parsed.form.model); !found) {
    return std::move(found).error();
  }
  if (auto checked = check_required(route, body); !checked) return std::move(checked).error();
  if (auto combined = combine(draft); !combined)
    return in_terms_of(route, std::move(combined).error());
  ParsedRequest parsed = std::move(draft.parsed);
  if (route == Route::kResponses) {
    TRY_ASSIGN(parsed.form.repeated, repeated_members(body));
  }
  build_requests(std::move(draft), parsed);
  return parsed;
}

Result<void> check_model(const Json& body, const std::vector<std::string>& model_names) {
  if (!body.is_object()) return no_object(body);
  RequestDraft draft;
  const Json* model = body.find("model");
  if (model != nullptr && !model->is_null()) {
    if (auto read = read_model(*model, draft); !read) return read;
  }
  return resolve_model(model_names, draft.parsed.form.model);
}

}  // namespace stoker
