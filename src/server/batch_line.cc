#include "server/batch_line.h"

#include <algorithm>

#include "server/id_set.h"
#include "server/routes.h"

namespace stoker {
namespace {

constexpr const char* kLineStart = R"({"id":"batch_req_)";
constexpr size_t kMaxShownMethodBytes = 200;

// The body of a line is one level deeper than that of an HTTP request, and may be as deep.
JsonLimits line_limits() {
  JsonLimits limits;
  ++limits.max_depth;
  return limits;
}

HttpError wrong_member(const char* name, const std::string& expected, const Json* found) {
  std::string kind = found == nullptr ? "none" : found->kind_name();
  if (found != nullptr && found->is_string() && found->as_string().empty()) kind = "an empty one";
  return {400, std::string(name) + ": expected " + expected + ", found " + kind, name, ""};
}

// As the server would refuse it by its head.
std::optional<HttpError> check_target(const std::string& method, const std::string& url) {
  const Target target = target_of(url);
  const bool is_batched = target == Target::kCompletions || target == Target::kChat;
  if (is_batched && method == "POST") return std::nullopt;
  HttpRequest head;
  head.method = method;
  head.path = url;
  head.content_type = "application/json";
  if (auto refusal = check_head(head, {}, {})) return refusal;
  return HttpError{404,
                   "expected POST of /v1/chat/completions or /v1/completions in a batch, found " +
                       method.substr(0, kMaxShownMethodBytes) + " of " +
                       url.substr(0, kMaxShownMethodBytes),
                   "url", ""};
}

// What is wrong with a line that has its custom_id; sets its route.
std::optional<HttpError> read_request(BatchLine& line) {
  const Json& json = line.json;
  const Json* method = json.find("method");
  if (method == nullptr || !method->is_string()) {
    return wrong_member("method", "\"POST\"", method);
  }
  const Json* url = json.find("url");
  if (url == nullptr || !url->is_string()) {
    return wrong_member("url", "\"/v1/chat/completions\" or \"/v1/completions\"", url);
  }
  if (auto refusal = check_target(method->as_string(), url->as_string())) return refusal;
  const Json* body = json.find("body");
  if (body == nullptr || !body->is_object()) return wrong_member("body", "an object", body);
  line.route = target_of(url->as_string()) == Target::kChat ? Route::kChat : Route::kCompletions;
  return std::nullopt;
}

std::string output_line(const std::string& id, const std::optional<std::string>& custom_id,
                        const std::string& response, const std::string& error) {
  return kLineStart + id + "\",\"custom_id\":" + (custom_id ? json_quote(*custom_id) : "null") +
         ",\"response\":" + response + ",\"error\":" + error + "}\n";
}

}  // namespace

BatchLine parse_batch_line(std::string_view text) {
  BatchLine line;
  auto json = Json::parse(text, line_limits());
  if (!json) {
    line.error = to_http_error(json.error());
    return line;
  }
  line.json = *std::move(json);
  if (!line.json.is_object()) {
    line.error = {400, std::string("expected a JSON object, found ") + line.json.kind_name(), "",
                  ""};
    return line;
  }
  const Json* custom_id = line.json.find("custom_id");
  if (custom_id == nullptr || custom_id->as_string().empty() || !custom_id->is_string()) {
    line.error = wrong_member("custom_id", "a string", custom_id);
    return line;
  }
  line.custom_id = custom_id->as_string();
  line.error = read_request(line);
  return line;
}

uint64_t batch_seed(std::string_view custom_id, uint64_t run_seed) {
  return splitmix64(fnv1a64(custom_id) ^ splitmix64(run_seed)) >> 11;
}

std::string response_line(const std::string& id, const BatchResponse& response) {
  const std::string inner = "{\"status_code\":" + std::to_string(response.status) +
                            ",\"request_id\":" + json_quote(response.request_id) +
                            ",\"body\":" + response.body + "}";
  return output_line(id, response.custom_id, inner, "null");
}

std::string error_line(const std::string& id, const BatchLineError& error) {
  return output_line(
      id, error.custom_id, "null",
      "{\"code\":" + json_quote(error.code) + ",\"message\":" + json_quote(error.message) + "}");
}

bool is_final_status(int64_t status) {
  return status >= 200 && status < 500 && status != 429;
}

BatchOutputLine parse_output_line(std::string_view text) {
  BatchOutputLine line;
  const auto json = Json::parse(text);
  if (!json || !json->is_object()) return line;
  const Json* custom_id = json->find("custom_id");
  const Json* response = json->find("response");
  const Json* error = json->find("error");
  if (custom_id == nullptr || response == nullptr) return line;
  if (response->is_null()) {
    if (error != nullptr && error->is_object()) line.kind = BatchOutputLine::Kind::kAgain;
    return line;
  }
  const Json* status = response->find("status_code");
  if (status == nullptr || !status->as_int() || !custom_id->is_string()) return line;
  line.status = *status->as_int();
  const bool is_final = is_final_status(line.status);
  line.kind = is_final ? BatchOutputLine::Kind::kFinished : BatchOutputLine::Kind::kAgain;
  line.custom_id = custom_id->as_string();
  return line;
}

bool is_cut_output_line(std::string_view bytes) {
  const std::string_view start = kLineStart;
  const size_t num_common = std::min(bytes.size(), start.size());
  if (bytes.substr(0, num_common) == start.substr(0, num_common)) return true;
  // What a file system may leave of the end of a file when the machine stops.
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

}  // namespace stoker
