#include "api/resolve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <utility>

#include "api/conversation.h"
#include "base/try.h"
#include "tensor/arith.h"

namespace stoker {
namespace {

constexpr double kMaxBias = 100;
constexpr double kMaxPenalty = 2;
constexpr double kMaxRepetition = 1e6;  // and its inverse: far from what a float32 cannot hold

std::string text_of(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

Result<void> check_range(const char* field, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return invalid(field, "expected a number from " + text_of(least) + " to " + text_of(most) +
                            ", found " + text_of(value));
}

Result<void> check_count(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return invalid(field, "expected " + std::to_string(least) + " to " + std::to_string(most) +
                            ", found " + std::to_string(value));
}

Result<void> check_length(const char* field, size_t size) {
  if (size <= kMaxIdsInLists) return {};
  return invalid(field, "expected at most " + std::to_string(kMaxIdsInLists) + " of them, found " +
                            std::to_string(size));
}

Result<void> check_id(const std::string& field, int32_t id, const ModelInfo& info) {
  if (id >= 0 && id < info.vocab_size) return {};
  return invalid(field, "expected token ids from 0 to " + std::to_string(info.vocab_size - 1) +
                            ", found " + std::to_string(id));
}

Result<void> check_ids(const char* field, const std::vector<int32_t>& ids, const ModelInfo& info) {
  for (const int32_t id : ids) {
    if (auto checked = check_id(field, id, info); !checked) return checked;
  }
  return {};
}

std::vector<int32_t> sorted(std::vector<int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// Temperature and filters, with their defaults.
Result<sampling::Params> resolve_filters(const SamplingParams& asked) {
  sampling::Params params;
  params.temperature = *asked.temperature;
  params.top_p = *asked.top_p;
  params.top_k = *asked.top_k;
  params.min_p = *asked.min_p;
  if (!(params.temperature >= 0) || !std::isfinite(params.temperature)) {
    return invalid("temperature",
                   "expected a number of at least 0, found " + text_of(params.temperature));
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return invalid("top_p",
                   "expected a number above 0 and at most 1, found " + text_of(params.top_p));
  }
  if (params.top_k < -1) {
    return invalid(
        "top_k", "expected at least 1, or 0 or -1 for off, found " + std::to_string(params.top_k));
  }
  if (auto checked = check_range("min_p", params.min_p, 0, 1); !checked)
    return std::move(checked).error();
  return params;
}

Result<sampling::Penalties> resolve_penalties(const SamplingParams& asked) {
  const double repetition = *asked.repetition_penalty;
  if (auto checked =
          check_range("repetition_penalty", repetition, 1 / kMaxRepetition, kMaxRepetition);
      !checked)
    return std::move(checked).error();
  if (auto checked =
          check_range("presence_penalty", asked.presence_penalty, -kMaxPenalty, kMaxPenalty);
      !checked)
    return std::move(checked).error();
  if (auto checked =
          check_range("frequency_penalty", asked.frequency_penalty, -kMaxPenalty, kMaxPenalty);
      !checked)
    return std::move(checked).error();
  return sampling::Penalties{static_cast<float>(repetition),
                             static_cast<float>(asked.presence_penalty),
                             static_cast<float>(asked.frequency_penalty)};
}

// logit_bias and banned_token_ids, by rising id.
Result<std::vector<sampling::Bias>> resolve_bias(const SamplingParams& asked,
                                                 const ModelInfo& info) {
  if (auto checked = check_length("logit_bias", asked.logit_bias.size()); !checked)
    return std::move(checked).error();
  if (auto checked = check_ids("banned_token_ids", asked.banned_token_ids, info); !checked)
    return std::move(checked).error();
  std::map<int32_t, float> bias;
  for (const auto& [id, value] : asked.logit_bias) {
    if (auto checked = check_id("logit_bias", id, info); !checked)
      return std::move(checked).error();
    if (auto checked = check_range("logit_bias", value, -kMaxBias, kMaxBias); !checked)
      return std::move(checked).error();
    bias[id] = value == -kMaxBias ? arith::kNegInf : static_cast<float>(value);
  }
  for (const int32_t id : asked.banned_token_ids) bias[id] = arith::kNegInf;
  std::vector<sampling::Bias> out;
  out.reserve(bias.size());
  for (const auto& [id, value] : bias) out.push_back({id, value});
  return out;
}

// Each word as it is and behind a blank, unless that is a blank and the tokens of the word.
Result<std::vector<std::vector<int32_t>>> resolve_bad_words(const std::vector<std::string>& words,
                                                            const Tokenizer* tokenizer) {
  std::vector<std::vector<int32_t>> out;
  if (words.empty()) return out;
  if (tokenizer == nullptr) {
    return Error{ErrorCode::kUnsupported,
                 "bad_words: the model has no tokenizer.json: give banned_token_ids", "bad_words"};
  }
  if (auto checked = check_length("bad_words", words.size()); !checked)
    return std::move(checked).error();
  for (const std::string& word : words) {
    if (word.empty() || word.size() > kMaxStopBytes) {
      return invalid("bad_words", "expected texts of 1 to " + std::to_string(kMaxStopBytes) +
                                      " bytes, found one of " + std::to_string(word.size()));
    }
    const size_t start = word.find_first_not_of(' ');
    const std::string bare = start == std::string::npos ? word : word.substr(start);
    out.push_back(tokenizer->encode(bare, Tokenizer::AddedTokens::kMatch));
    std::vector<int32_t> behind_blank =
        tokenizer->encode(" " + bare, Tokenizer::AddedTokens::kMatch);
    const auto& word_ids = out.back();
    if (behind_blank.size() < word_ids.size() ||
        !std::equal(word_ids.rbegin(), word_ids.rend(), behind_blank.rbegin()))
      out.push_back(std::move(behind_blank));
  }
  return out;
}

// Whether an id is left that the first token may be.
Result<void> check_some_allowed(const sampling::Params& params, const ModelInfo& info) {
  std::vector<bool> is_banned(static_cast<size_t>(info.vocab_size), !params.allowed.empty());
  const auto ban = [&is_banned](int32_t id) { is_banned[static_cast<size_t>(id)] = true; };
  for (const int32_t id : params.allowed) is_banned[static_cast<size_t>(id)] = false;
  for (const sampling::Bias& bias : params.bias) {
    if (bias.value == arith::kNegInf) ban(bias.id);
  }
  for (const auto& word : params.bad_words) {
    if (word.size() == 1) ban(word[0]);
  }
  if (params.min_tokens > 0) std::for_each(params.ends.begin(), params.ends.end(), ban);
  if (std::find(is_banned.begin(), is_banned.end(), false) != is_banned.end()) return {};
  const std::string field = params.allowed.empty() ? "logit_bias" : "allowed_token_ids";
  return invalid(field,
                 "expected a token that may be chosen, found all of them banned by "
                 "allowed_token_ids, logit_bias, banned_token_ids, bad_words and min_tokens");
}

Result<void> check_stops(const Request& request, const ModelInfo& info) {
  if (!request.stop.empty() && !info.has_text) {
    return Error{ErrorCode::kUnsupported,
                 "stop: the model has no tokenizer.json, so its output is no text", "stop"};
  }
  if (request.stop.size() > kMaxStops) {
    return invalid("stop", "expected at most " + std::to_string(kMaxStops) + " strings, found " +
                               std::to_string(request.stop.size()));
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return invalid("stop", "expected strings of 1 to " + std::to_string(kMaxStopBytes) +
                                 " bytes, found one of " + std::to_string(stop.size()));
    }
  }
  if (auto checked = check_length("stop_token_ids", request.stop_token_ids.size()); !checked)
    return checked;
  return check_ids("stop_token_ids", request.stop_token_ids, info);
}

// What concerns the engine and not the answer.
Result<void> check_service(const Request& request, bool use_priorities) {
  const bool is_background = request.priority == kBackgroundPriority;
  if (request.priority != 0 && !is_background && !use_priorities) {
    return invalid("priority",
                   "expected 0, since requests are served in the order of arrival, or " +
                       std::to_string(kBackgroundPriority) + ", which is behind all; found " +
                       std::to_string(request.priority));
  }
  if (request.timeout && request.timeout->count() <= 0) {
    return invalid("timeout",
                   "expected more than 0 ms, found " + std::to_string(request.timeout->count()));
  }
  if (request.cache_salt.size() > kMaxSaltBytes) {
    return invalid("cache_salt", "expected at most " + std::to_string(kMaxSaltBytes) +
                                     " bytes, found " + std::to_string(request.cache_salt.size()));
  }
  return {};
}

Result<void> check_repetition(const Request& request) {
  if (!request.repetition_detection) return {};
  const RepetitionDetection& asked = *request.repetition_detection;
  const std::string field = "repetition_detection.";
  if (auto checked = check_count((field + "max_pattern_size").c_str(), asked.max_pattern_size, 0,
                                 kMaxPatternSize);
      !checked)
    return checked;
  if (auto checked = check_count((field + "min_pattern_size").c_str(), asked.min_pattern_size, 0,
                                 asked.max_pattern_size);
      !checked)
    return checked;
  const int32_t least = asked.max_pattern_size > 0 ? 2 : 0;
  return check_count((field + "min_count").c_str(), asked.min_count, least, INT32_MAX);
}

// How many answers, and what is told of their tokens.
Result<void> check_counts(const Request& request) {
  if (auto checked = check_count("n", request.n, 1, kMaxChoices); !checked) return checked;
  for (const auto& [field, number] : {std::pair{"logprobs", request.logprobs},
                                      std::pair{"prompt_logprobs", request.prompt_logprobs}}) {
    if (!number) continue;
    if (auto checked = check_count(field, *number, 0, kMaxLogprobs); !checked) return checked;
  }
  return {};
}

// How many tokens may be chosen: what was asked for, or what is left of the context.
Result<int32_t> resolve_max_tokens(std::optional<int32_t> asked, const EncodedPrompt& prompt,
                                   int32_t context) {
  const auto length = static_cast<int64_t>(prompt.ids.size());
  if (length >= context) {
    return invalid(prompt.field, "the prompt has " + std::to_string(length) +
                                     " tokens, and the context of " + std::to_string(context) +
                                     " must hold at least one more");
  }
  if (!asked) return static_cast<int32_t>(context - length);
  if (*asked < 1)
    return invalid("max_tokens", "expected at least 1, found " + std::to_string(*asked));
  if (length + *asked > context) {
    return invalid("max_tokens", "the context holds " + std::to_string(context) +
                                     " tokens; the prompt has " + std::to_string(length) + " and " +
                                     std::to_string(*asked) + " more are asked for");
  }
  return *asked;
}

Result<sampling::Params> resolve_sampling(const Request& request, const LoadedModel& model) {
  const ModelInfo& info = model.info();
  const SamplingParams asked = with_defaults(request.sampling, info.defaults);
  TRY_ASSIGN(sampling::Params params, resolve_filters(asked));
  TRY_ASSIGN(params.penalties, resolve_penalties(asked));
  TRY_ASSIGN(params.bias, resolve_bias(asked, info));
  if (auto checked = check_ids("allowed_token_ids", asked.allowed_token_ids, info); !checked)
    return std::move(checked).error();
  params.allowed = sorted(asked.allowed_token_ids);
  TRY_ASSIGN(params.bad_words, resolve_bad_words(asked.bad_words, model.tokenizer()));
  params.min_tokens = request.min_tokens;
  if (request.min_tokens > 0) {
    params.ends = model.stop_ids();
    params.ends.insert(params.ends.end(), request.stop_token_ids.begin(),
                       request.stop_token_ids.end());
    params.ends = sorted(std::move(params.ends));
  }
  if (auto checked = check_some_allowed(params, info); !checked) return std::move(checked).error();
  return params;
}

class PromptEncoder {
 public:
  PromptEncoder(const LoadedModel& model, const Structure& structure)
      : model_(model), structure_(structure) {}

  Result<EncodedPrompt> operator()(TextPrompt& prompt) const {
    if (model_.tokenizer() == nullptr) {
      return Error{ErrorCode::kUnsupported,
                   "prompt: the model has no tokenizer.json: give token ids", "prompt"};
    }
    EncodedPrompt out{model_.tokenizer()->encode(prompt.text, Tokenizer::AddedTokens::kMatch),
                      "prompt"};
    const int32_t bos = model_.checkpoint().config().bos_token_id;
    if (out.ids.empty() || (prompt.add_bos && out.ids[0] != bos))
      out.ids.insert(out.ids.begin(), bos);
    return out;
  }

  Result<EncodedPrompt> operator()(TokenPrompt& prompt) const {
    if (prompt.ids.empty()) return invalid("prompt", "expected at least one token id, found none");
    const bool is_chat = prompt.reply.start != ReplyStart::kText;
    if (is_chat && model_.encoder() == nullptr) return no_chat("prompt");
    if (!prompt.reply.has_calls && (prompt.must_call || !prompt.tools.empty()))
      return invalid("reply", "expected one that has calls, since there are tools");
    if (prompt.must_call && prompt.tools.empty())
      return invalid("tools", "expected at least one, since a call must come, found none");
    EncodedPrompt out{std::move(prompt.ids), "prompt", std::move(prompt.reply)};
    TRY_ASSIGN(out.tools, tools_of(prompt.tools));
    out.must_call = prompt.must_call;
    return out;
  }

  Result<EncodedPrompt> operator()(ChatPrompt& prompt) const {
    if (model_.encoder() == nullptr) return no_chat("messages");
    return encode_chat(prompt, structure_, *model_.encoder());
  }

 private:
  Error no_chat(const char* field) const {
    Error error = *model_.why_no_chat();
    error.field = field;
    return error;
  }

  const LoadedModel& model_;
  const Structure& structure_;
};

}  // namespace

Error invalid(const std::string& field, const std::string& message) {
  return {ErrorCode::kInvalidArgument, field + ": " + message, field};
}

SamplingParams with_defaults(SamplingParams asked, const SamplingParams& defaults) {
  asked.temperature = asked.temperature.value_or(defaults.temperature.value_or(1));
  asked.top_p = asked.top_p.value_or(defaults.top_p.value_or(1));
  asked.top_k = asked.top_k.value_or(defaults.top_k.value_or(0));
  asked.min_p = asked.min_p.value_or(defaults.min_p.value_or(0));
  asked.repetition_penalty =
      asked.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1));
  return asked;
}

Result<EncodedPrompt> encode_prompt(Request& request, const LoadedModel& model) {
  TRY_ASSIGN(EncodedPrompt prompt,
             std::visit(PromptEncoder(model, request.structure), request.prompt));
  if (auto checked = model.check_ids(prompt.ids, prompt.field); !checked)
    return std::move(checked).error();
  return prompt;
}

Result<engine::TokenRequest> resolve_request(const Request& request, const LoadedModel& model,
                                             bool use_priorities) {
  for (const Result<void>& checked :
       {check_counts(request), check_stops(request, model.info()), check_repetition(request),
        check_service(request, use_priorities)}) {
    if (!checked) return checked.error();
  }
  engine::TokenRequest out;
  TRY_ASSIGN(out.sampling, resolve_sampling(request, model));
  out.stop_ids = request.stop_token_ids;
  if (!request.ignore_eos) {
    out.stop_ids.insert(out.stop_ids.end(), model.stop_ids().begin(), model.stop_ids().end());
  }
  if (request.repetition_detection && request.repetition_detection->max_pattern_size > 0) {
    const RepetitionDetection& asked = *request.repetition_detection;
    out.repetition = {asked.max_pattern_size, std::max(1, asked.min_pattern_size), asked.min_count};
  }
  out.priority = request.priority;
  out.cache_salt = request.cache_salt;
  out.logprobs = request.logprobs;
  out.prompt_logprobs = request.prompt_logprobs;
  out.tell_progress = request.return_progress;
  out.speculate = request.speculate;
  return out;
}

Result<void> truncate_prompt(const Request& request, const ModelInfo& info, EncodedPrompt& prompt) {
  if (!request.truncate_prompt_tokens) return {};
  int64_t kept = *request.truncate_prompt_tokens;
  if (kept < -1 || kept == 0) {
    return invalid("truncate_prompt_tokens",
                   "expected at least 1, or -1 for as many as the context has room for, found " +
                       std::to_string(kept));
  }
  // Of an answer that needs the whole context one is left, which resolve_lengths() tells.
  if (kept == -1)
    kept = std::max<int64_t>(1, int64_t{info.max_context_tokens} - request.max_tokens.value_or(1));
  const auto length = static_cast<int64_t>(prompt.ids.size());
  if (length > kept) prompt.ids.erase(prompt.ids.begin(), prompt.ids.begin() + (length - kept));
  return {};
}

Result<void> resolve_thinking(const Request& request, const EncodedPrompt& prompt,
                              const LoadedModel& model, engine::TokenRequest& out) {
  if (!request.thinking_token_budget) return {};
  const int32_t budget = *request.thinking_token_budget;
  if (budget < 0) {
    return invalid("thinking_token_budget", "expected at least 0, found " + std::to_string(budget));
  }
  if (!begins_with_reasoning(prompt.reply.start)) return {};
  const chat::Encoder& encoder = *model.encoder();
  const int32_t end = encoder.end_of_thinking();
  const auto& stops = request.stop_token_ids;
  if (budget < request.min_tokens && std::ranges::find(stops, end) != stops.end()) {
    return invalid("thinking_token_budget",
                   "expected at least min_tokens, which is " + std::to_string(request.min_tokens) +
                       ", where stop_token_ids has the end of the reasoning, found " +
                       std::to_string(budget));
  }
  out.sampling.forced = {budget, end, {end}};
  if (prompt.reply.has_calls) out.sampling.forced->unless.push_back(encoder.mark_of_calls());
  return {};
}

Result<void> resolve_lengths(const Request& request, const EncodedPrompt& prompt,
                             const ModelInfo& info, engine::TokenRequest& out) {
  TRY_ASSIGN(out.max_tokens,
             resolve_max_tokens(request.max_tokens, prompt, info.max_context_tokens));
  if (request.min_tokens >= 0 && request.min_tokens <= out.max_tokens) return {};
  return invalid("min_tokens", "expected 0 to " + std::to_string(out.max_tokens) +
                                   ", the most tokens that may be chosen, found " +
                                   std::to_string(request.min_tokens));
}

}  // namespace stoker
