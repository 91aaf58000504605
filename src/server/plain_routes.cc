#include "server/plain_routes.h"

#include <cmath>

#include "base/check.h"
#include "base/json.h"
#include "server/abort_route.h"
#include "server/http_query.h"
#include "server/page.h"
#include "server/profile_routes.h"
#include "stoker/version.h"

namespace stoker {
namespace {

// The words of /ready.
const char* state_of(const ServerContext& context) {
  if (context.is_draining) return "draining";
  if (context.engine == nullptr) return "loading";
  if (!context.engine->healthy()) return "stopped";
  if (context.is_asleep) return "sleeping";
  return context.is_paused ? "paused" : "ready";
}

Json ready_json(const ServerContext& context) {
  Json out = Json::object();
  out.set("state", Json::string(state_of(context)));
  if (context.engine != nullptr) {
    out.set("progress", Json::integer(1));
    return out;
  }
  const StartPhase& start = context.start;
  out.set("phase", Json::string(start.name()));
  out.set("progress", Json::real(std::round(start.fraction() * 1000) / 1000));
  const auto left = start.seconds_left(StartPhase::Clock::now());
  out.set("eta_s", left ? Json::real(std::round(*left * 10) / 10) : Json());
  return out;
}

Json version_json(const ServerContext& context) {
  Json out = Json::object();
  out.set("version", Json::string(version()));
  if (context.engine == nullptr) return out;
  const ModelInfo& model = context.engine->model();
  out.set("model_digest", Json::string(model.digest));
  out.set("numeric_mode", Json::string(model.numeric_mode));
  return out;
}

Json server_info_json(const ServerContext& context) {
  Json out = version_json(context);
  out.set("state", Json::string(state_of(context)));
  out.set("created", Json::integer(context.created));
  Json names = Json::array();
  for (const std::string& name : context.names) names.push(Json::string(name));
  out.set("served_model_names", std::move(names));
  if (context.engine == nullptr) return out;
  const ModelInfo& model = context.engine->model();
  out.set("model", Json::string(model.path));
  out.set("max_model_len", Json::integer(model.max_context_tokens));
  out.set("vocab_size", Json::integer(model.vocab_size));
  return out;
}

PlainAnswer json(const Json& body) {
  return {200, body.dump()};
}

PlainAnswer refused(HttpError error) {
  return {error.status, "", "", std::move(error)};
}

PlainAnswer page(const ServerContext& context) {
  if (!context.options.page) return refused({404, "there is no page here", "", ""});
  return {200, std::string(page_html()), "text/html; charset=utf-8"};
}

PlainAnswer health(const ServerContext& context) {
  const bool is_alive =
      context.engine != nullptr && context.engine->healthy() && !context.is_draining;
  if (is_alive) return {};
  return refused(*why_not_served(context));
}

PlainAnswer ready(const ServerContext& context) {
  PlainAnswer answer = json(ready_json(context));
  if (const auto refusal = why_not_served(context)) {
    answer.status = refusal->status;
    answer.retry_after_s = refusal->retry_after_s;
  }
  return answer;
}

// The server's thread answers this, so it ticks.
PlainAnswer live() {
  return {};
}

PlainAnswer load(const ServerContext& context) {
  Json out = Json::object();
  out.set("server_load", Json::integer(context.num_answering));
  return json(out);
}

PlainAnswer metrics(const ServerContext& context, const std::string& accept) {
  const std::string name = context.names.empty() ? std::string() : context.names.front();
  const MetricsForm form = metrics_form_of(accept);
  return {200, context.metrics.text(context.engine, name, form), content_type_of(form)};
}

PlainAnswer model_card(const ServerContext& context, const std::string& path) {
  const auto card = model_json(context.engine->model(), context.names, context.created, path);
  if (card) return {200, *card};
  return refused({404, "no such model is served here", "model", ""});
}

PlainAnswer set_paused(ServerContext& context, bool is_paused) {
  context.set_paused(is_paused);
  return {};
}

PlainAnswer is_paused(const ServerContext& context) {
  Json out = Json::object();
  out.set("is_paused", Json::boolean(context.is_paused));
  return json(out);
}

PlainAnswer abort_requests(const ServerContext& context, std::string_view body) {
  auto answer = abort_answer(context, body);
  if (!answer) return refused(to_http_error(answer.error()));
  return {200, *std::move(answer)};
}

// As vLLM has it, but that what runs is waited for unless mode says otherwise.
PlainAnswer fall_asleep(ServerContext& context, const std::string& query) {
  const std::string level = query_value(query, "level").value_or("1");
  const std::string mode = query_value(query, "mode").value_or("wait");
  if (level != "0" && level != "1" && level != "2")
    return refused(
        {400, "level: expected 0, 1 or 2, found " + json_quote(level.substr(0, 40)), "level", ""});
  if (mode != "wait" && mode != "abort")
    return refused(
        {400, "mode: expected wait or abort, found " + json_quote(mode.substr(0, 40)), "mode", ""});
  const bool was_asleep = context.is_asleep;
  context.set_asleep(true);  // first, so that batches hold their lines back
  const auto slept =
      context.engine->sleep(static_cast<SleepLevel>(level[0] - '0'), mode == "abort");
  if (slept) return {};
  context.set_asleep(was_asleep);
  return refused(to_http_error(slept.error()));
}

// Weights come by themselves: a client that wakes them up first, and the rest later, may do so.
PlainAnswer wake_up(ServerContext& context, const std::string& query) {
  const std::string tags = query_value(query, "tags").value_or("kv_cache");
  if (tags != "kv_cache" && tags != "weights")
    return refused({400,
                    "tags: expected kv_cache or weights, found " + json_quote(tags.substr(0, 40)),
                    "tags", ""});
  if (tags == "weights") return {};
  context.engine->wake_up();
  context.set_asleep(false);
  return {};
}

PlainAnswer is_sleeping(const ServerContext& context) {
  Json out = Json::object();
  out.set("is_sleeping", Json::boolean(context.is_asleep));
  out.set("has_released_memory", Json::boolean(context.engine->stats().has_released_memory));
  return json(out);
}

PlainAnswer reset_prefix_cache(const ServerContext& context) {
  context.engine->reset_prefix_cache();
  return {};
}

// What clients read of a tokenizer's configuration.
PlainAnswer tokenizer_info(const ServerContext& context) {
  if (!context.options.tokenizer_info)
    return refused(
        {404, "there is no /tokenizer_info without --enable-tokenizer-info-endpoint", "", ""});
  const ModelInfo& model = context.engine->model();
  const auto text_of = [&context](int32_t id) {
    const std::string bytes = context.engine->token_bytes(id);
    return bytes.empty() ? Json() : Json::string(bytes);
  };
  Json out = Json::object();
  out.set("tokenizer_class", Json::string("stoker"));
  out.set("bos_token", text_of(model.bos_id));
  out.set("eos_token", model.eos_ids.empty() ? Json() : text_of(model.eos_ids.front()));
  out.set("add_bos_token", Json::boolean(false));
  out.set("model_max_length", Json::integer(model.max_context_tokens));
  out.set("chat_template", Json());
  return json(out);
}

// Of those that need an engine that is there.
PlainAnswer answer_with_engine(ServerContext& context, const HttpRequest& request) {
  if (context.engine == nullptr) return refused(*why_not_served(context));
  switch (target_of(request.path)) {
    case Target::kModels:
      return {200, models_json(context.engine->model(), context.names, context.created)};
    case Target::kModel:
      return model_card(context, request.path);
    case Target::kTokenizerInfo:
      return tokenizer_info(context);
    case Target::kResetPrefixCache:
      return reset_prefix_cache(context);
    case Target::kStartProfile:
      return start_profile(context);
    case Target::kStopProfile:
      return stop_profile(context);
    case Target::kSleep:
      return fall_asleep(context, request.query);
    case Target::kWakeUp:
      return wake_up(context, request.query);
    case Target::kIsSleeping:
      return is_sleeping(context);
    default:
      break;
  }
  CHECK(false, "check_head has refused what has no target");
}

}  // namespace

std::optional<HttpError> why_stopping(const ServerContext& context) {
  if (!context.is_draining) return std::nullopt;
  return HttpError{503, "the server is stopping", "", "", kLongRetrySeconds};
}

std::optional<HttpError> why_not_served(const ServerContext& context) {
  if (auto stopping = why_stopping(context)) return stopping;
  if (context.engine == nullptr) {
    const auto left = context.start.seconds_left(StartPhase::Clock::now());
    return HttpError{503, "the server is starting: " + context.start.text(), "", "",
                     retry_after_seconds(left)};
  }
  if (!context.engine->healthy())
    return HttpError{503, "the engine has stopped", "", "EngineDeadError", kLongRetrySeconds};
  if (context.is_asleep) return HttpError{503, "the server sleeps", "", "", kLongRetrySeconds};
  if (context.is_paused) return HttpError{503, "the server is paused", "", "", kLongRetrySeconds};
  return std::nullopt;
}

PlainAnswer answer_plainly(ServerContext& context, const HttpRequest& request) {
  switch (target_of(request.path)) {
    case Target::kPage:
      return page(context);
    case Target::kHealth:
    case Target::kPing:
      return health(context);
    case Target::kLive:
      return live();
    case Target::kReady:
      return ready(context);
    case Target::kVersion:
      return json(version_json(context));
    case Target::kLoad:
      return load(context);
    case Target::kMetrics:
      return metrics(context, request.accept);
    case Target::kOpenApi:
      return {200, context.openapi()};
    case Target::kServerInfo:
      return json(server_info_json(context));
    case Target::kPause:
      return set_paused(context, true);
    case Target::kResume:
      return set_paused(context, false);
    case Target::kIsPaused:
      return is_paused(context);
    case Target::kAbortRequests:
      return abort_requests(context, request.body);
    default:
      return answer_with_engine(context, request);
  }
}

}  // namespace stoker
