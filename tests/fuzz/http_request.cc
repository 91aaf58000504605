// Any bytes as a request. The first byte says what the rest is: 'c', 'm', 'a', 't', 'r' and 'g' the
// JSON body of a completion, a chat, Anthropic's messages, the count of their tokens, a response of
// OpenAI's newer interface or of token ids, else raw HTTP, which must be understood in the same way
// whole and in pieces.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "server/http_error.h"
#include "server/http_parser.h"
#include "server/request_parser.h"
#include "server/routes.h"

namespace stoker {
namespace {

void check_sampling(const SamplingParams& sampling) {
  CHECK(!sampling.temperature || *sampling.temperature >= 0, "temperature");
  CHECK(!sampling.top_p || (*sampling.top_p > 0 && *sampling.top_p <= 1), "top_p");
  CHECK(!sampling.top_k || *sampling.top_k >= -1, "top_k");
  CHECK(!sampling.min_p || (*sampling.min_p >= 0 && *sampling.min_p <= 1), "min_p");
  CHECK(!sampling.repetition_penalty || *sampling.repetition_penalty > 0, "repetition_penalty");
  CHECK(std::abs(sampling.presence_penalty) <= 2, "presence_penalty");
  CHECK(std::abs(sampling.frequency_penalty) <= 2, "frequency_penalty");
  for (const auto& [id, bias] : sampling.logit_bias)
    CHECK(id >= 0 && std::abs(bias) <= 100, "logit_bias");
  for (const int32_t id : sampling.allowed_token_ids) CHECK(id >= 0, "allowed_token_ids");
  for (const int32_t id : sampling.banned_token_ids) CHECK(id >= 0, "banned_token_ids");
  for (const std::string& word : sampling.bad_words) CHECK(is_valid_utf8(word), "bad_words");
}

void check_counts(const Request& request) {
  CHECK(request.n >= 1 && request.n <= kMaxChoices, "n");
  CHECK(request.min_tokens >= 0, "min_tokens");
  for (const auto& number : {request.logprobs, request.prompt_logprobs})
    CHECK(!number || (*number >= 0 && *number <= kMaxLogprobs), "log-probabilities");
  for (const int32_t id : request.stop_token_ids) CHECK(id >= 0, "stop_token_ids");
}

void check_request(const Request& request) {
  check_sampling(request.sampling);
  check_counts(request);
  CHECK(!request.max_tokens || *request.max_tokens >= 1, "max_tokens");
  CHECK(request.stop.size() <= 16, "number of stop strings");
  for (const std::string& stop : request.stop) {
    CHECK(!stop.empty() && stop.size() <= 256 && is_valid_utf8(stop), "stop string");
  }
  if (const auto* ids = std::get_if<TokenPrompt>(&request.prompt)) {
    CHECK(!ids->ids.empty(), "ids");
    for (const int32_t id : ids->ids) CHECK(id >= 0, "id");
  }
  if (const auto* chat = std::get_if<ChatPrompt>(&request.prompt)) {
    CHECK(!chat->messages.empty(), "messages");
    for (const Message& message : chat->messages) {
      CHECK(!message.role.empty(), "role");
      for (const ToolCall& call : message.tool_calls)
        CHECK(is_valid_utf8(call.arguments), "arguments");
    }
    for (const Tool& tool : chat->tools)
      CHECK(!tool.parameters || Json::parse(*tool.parameters).has_value(), "parameters");
  }
}

void check_body(Route route, std::string_view body) {
  const auto parsed = parse_request(route, body, {"demo"});
  if (!parsed) {
    const HttpError error = to_http_error(parsed.error());
    CHECK(error.status == 400 || error.status == 404, "a client's fault is told as one");
    CHECK(!error.message.empty(), "and in words");
    for (const ErrorForm form : {ErrorForm::kOpenAi, ErrorForm::kAnthropic})
      CHECK(Json::parse(error_json(error, form)).has_value(), "and readable");
    return;
  }
  const std::string& repeated = parsed->form.repeated;
  CHECK(repeated.empty() || Json::parse("{" + repeated + "}").has_value(), "what is repeated");
  const bool needs_limit = route == Route::kMessages;
  CHECK(!needs_limit || parsed->requests.front().max_tokens, "max_tokens");
  CHECK(!parsed->requests.empty(), "requests");
  for (const Request& request : parsed->requests) {
    check_request(request);
    CHECK(parsed->form.num_choices >= 1 && parsed->form.num_choices <= request.n,
          "choices that are told");
    CHECK(!parsed->form.logprobs || request.logprobs, "what is told is asked for");
    CHECK(!parsed->form.stream || parsed->form.num_choices == request.n, "all choices stream");
  }
}

// What the parser makes of the requests in the input that are whole, up to a failure.
std::string transcript(std::string_view input, size_t piece_bytes, const HttpLimits& limits) {
  HttpParser parser(limits);
  std::string out;
  std::string buffer;
  for (size_t at = 0; at < input.size(); at += piece_bytes) {
    buffer += input.substr(at, piece_bytes);
    while (!buffer.empty()) {
      const size_t num_used = parser.feed(buffer);
      CHECK(num_used <= buffer.size(), "no more than there is");
      buffer.erase(0, num_used);
      if (parser.state() == HttpParser::State::kFailed) {
        CHECK(parser.error().status >= 400 && parser.error().status < 500, "a client's fault");
        return out;
      }
      if (parser.state() != HttpParser::State::kDone) break;
      const HttpRequest& request = parser.request();
      const auto refusal = check_head(request, {}, {});
      out += request.method + " " + request.path + " " + request.content_type + " " +
             request.request_id + " " + std::to_string(refusal ? refusal->status : 200) + " " +
             request.body + "\n";
      parser.reset();
    }
    CHECK(buffer.size() <= limits.max_header_bytes, "what waits is bounded");
  }
  return out;
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'c':
      stoker::check_body(stoker::Route::kCompletions, rest);
      break;
    case 'm':
      stoker::check_body(stoker::Route::kChat, rest);
      break;
    case 'a':
      stoker::check_body(stoker::Route::kMessages, rest);
      break;
    case 't':
      stoker::check_body(stoker::Route::kCountTokens, rest);
      break;
    case 'r':
      stoker::check_body(stoker::Route::kResponses, rest);
      break;
    case 'g':
      stoker::check_body(stoker::Route::kGenerate, rest);
      break;
    default: {
      const size_t piece_bytes = 1 + data[0] % 7;
      const stoker::HttpLimits wide{.max_header_bytes = size_t{1} << 20,
                                    .max_body_bytes = size_t{1} << 20};
      CHECK(stoker::transcript(rest, rest.size() + 1, wide) ==
                stoker::transcript(rest, piece_bytes, wide),
            "pieces are read as the whole is");
      stoker::transcript(rest, piece_bytes, {.max_header_bytes = 64, .max_body_bytes = 64});
    }
  }
  return 0;
}
