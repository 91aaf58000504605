#include "server/tokenize_routes.h"

#include <utility>

#include "base/json.h"
#include "base/try.h"
#include "server/field_readers.h"
#include "server/request_parser.h"

namespace stoker {
namespace {

Result<bool> wants_strings(const Json& body) {
  const Json* value = body.find("return_token_strs");
  if (value == nullptr || value->is_null()) return false;
  if (!value->is_bool()) return wrong_value("return_token_strs", "a boolean", *value);
  return value->as_bool();
}

Result<std::vector<int32_t>> read_tokens(const Json& body, const ModelInfo& model) {
  const Json* value = body.find("tokens");
  if (value == nullptr || !value->is_array())
    return wrong_value("tokens", "a list of token ids", value == nullptr ? Json() : *value);
  std::vector<int32_t> ids;
  ids.reserve(value->items().size());
  for (const Json& item : value->items()) {
    const auto id = item.as_int();
    if (!id || *id < 0 || *id >= model.vocab_size) {
      return wrong_value("tokens", "ids from 0 to " + std::to_string(model.vocab_size - 1), item);
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace

Result<std::string> tokenize_answer(const Engine& engine, std::string_view body,
                                    const std::vector<std::string>& model_names) {
  TRY_ASSIGN(const Json json, Json::parse(body));
  const Route route = json.find("messages") != nullptr ? Route::kChat : Route::kCompletions;
  TRY_ASSIGN(ParsedRequest parsed, parse_request(route, json, model_names));
  TRY_ASSIGN(const bool with_strings, wants_strings(json));
  if (parsed.requests.size() != 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "prompt: expected one, found " + std::to_string(parsed.requests.size()), "prompt"};
  }
  if (parsed.requests[0].truncate_prompt_tokens) {
    return Error{ErrorCode::kInvalidArgument,
                 "truncate_prompt_tokens: expected none, since all tokens of the prompt are told",
                 "truncate_prompt_tokens"};
  }
  TRY_ASSIGN(const std::vector<int32_t> ids, engine.encode(std::move(parsed.requests[0].prompt)));
  Json tokens = Json::array();
  for (const int32_t id : ids) tokens.push(Json::integer(id));
  Json out = Json::object();
  out.set("count", Json::integer(static_cast<int64_t>(ids.size())));
  out.set("max_model_len", Json::integer(engine.model().max_context_tokens));
  out.set("tokens", std::move(tokens));
  Json strings;
  if (with_strings) {
    strings = Json::array();
    for (const int32_t id : ids) strings.push(Json::string(engine.token_bytes(id)));
  }
  out.set("token_strs", std::move(strings));
  return out.dump();
}

Result<std::string> detokenize_answer(const Engine& engine, std::string_view body,
                                      const std::vector<std::string>& model_names) {
  TRY_ASSIGN(const Json json, Json::parse(body));
  if (auto checked = check_model(json, model_names); !checked) return std::move(checked).error();
  TRY_ASSIGN(const std::vector<int32_t> ids, read_tokens(json, engine.model()));
  TRY_ASSIGN(std::string text, engine.decode(ids));
  Json out = Json::object();
  out.set("prompt", Json::string(std::move(text)));
  return out.dump();
}

Result<std::string> count_tokens_answer(const Engine& engine, std::string_view body,
                                        const std::vector<std::string>& model_names) {
  TRY_ASSIGN(ParsedRequest parsed, parse_request(Route::kCountTokens, body, model_names));
  auto ids = engine.encode(std::move(parsed.requests[0].prompt));
  if (!ids) return in_terms_of(Route::kCountTokens, std::move(ids).error());
  Json out = Json::object();
  out.set("input_tokens", Json::integer(static_cast<int64_t>(ids->size())));
  return out.dump();
}

}  // namespace stoker
