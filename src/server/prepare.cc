#include "server/prepare.h"

#include <exception>
#include <utility>

#include "server/fields.h"
#include "server/tokenize_routes.h"

namespace stoker {
namespace {

// The route of a target whose answer a stream makes.
std::optional<Route> route_of(Target target) {
  switch (target) {
    case Target::kCompletions:
      return Route::kCompletions;
    case Target::kChat:
      return Route::kChat;
    case Target::kMessages:
      return Route::kMessages;
    case Target::kResponses:
      return Route::kResponses;
    case Target::kGenerate:
      return Route::kGenerate;
    default:
      return std::nullopt;
  }
}

// The answer of a target without a stream.
Result<std::string> plain_answer(const ServerContext& context, Target target,
                                 const std::string& body) {
  const Engine& engine = *context.engine;
  if (target == Target::kTokenize) return tokenize_answer(engine, body, context.names);
  if (target == Target::kDetokenize) return detokenize_answer(engine, body, context.names);
  return count_tokens_answer(engine, body, context.names);
}

void answer_at_once(const ServerContext& context, Target target, const std::string& body,
                    Prepared& prepared) {
  auto answer = plain_answer(context, target, body);
  if (answer) {
    prepared.body = *std::move(answer);
  } else {
    prepared.error = to_http_error(answer.error());
  }
}

// All or none of the requests run.
void submit(Engine& engine, Route route, const std::atomic<bool>& abandoned,
            const std::function<void()>& ready, Prepared& prepared) {
  for (Request& request : prepared.parsed.requests) {
    if (abandoned) return;
    auto stream = engine.submit(std::move(request), ready);
    if (!stream) {
      prepared.error = to_http_error(in_terms_of(route, std::move(stream).error()));
      prepared.streams.clear();
      return;
    }
    prepared.streams.push_back(*std::move(stream));
  }
}

void begin(const ServerContext& context, Route route, const std::string& body,
           const std::atomic<bool>& abandoned, const std::function<void()>& ready,
           Prepared& prepared) {
  auto parsed = parse_request(route, body, context.names);
  if (!parsed) {
    prepared.error = to_http_error(parsed.error());
    return;
  }
  prepared.parsed = *std::move(parsed);
  if (context.options.strict_requests && !prepared.parsed.unknown_fields.empty()) {
    const std::string& name = prepared.parsed.unknown_fields.front();
    prepared.error = {400, name + ": expected a field that is known", name, ""};
    return;
  }
  AnswerForm& form = prepared.parsed.form;
  form.metrics = context.options.per_request_metrics;
  if (context.options.force_include_usage && form.stream) form.include_usage = true;
  submit(*context.engine, route, abandoned, ready, prepared);
}

}  // namespace

Prepared prepare(const ServerContext& context, Target target, const std::string& body,
                 const std::atomic<bool>& abandoned, const std::function<void()>& ready) {
  Prepared prepared;
  try {
    if (abandoned) return prepared;
    if (const auto route = route_of(target)) {
      begin(context, *route, body, abandoned, ready, prepared);
    } else {
      answer_at_once(context, target, body, prepared);
    }
  } catch (const std::exception& exception) {
    prepared.streams.clear();
    prepared.error = to_http_error(exception);
  }
  return prepared;
}

}  // namespace stoker
