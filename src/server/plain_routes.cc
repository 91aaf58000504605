#include "server/plain_routes.h"

#include <cmath>

#include "base/check.h"
#include "base/json.h"
#include "server/abort_route.h"
#include "server/page.h"
#include "stoker/version.h"

namespace stoker {
namespace {

// The words of /ready.
const char* state_of(const ServerContext& context) {
  if (context.is_draining) return "draining";
  if (context.engine == nullptr) return "loading";
  if (!context.engine->healthy()) return "stopped";
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
  context.is_paused = is_paused;
  if (context.batches) context.batches->set_paused(is_paused);
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
      return {200, context.openapi};
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
