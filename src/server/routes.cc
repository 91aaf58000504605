#include "server/routes.h"

#include <algorithm>
#include <charconv>

#include "base/json.h"

namespace stoker {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

// Tasks that other models have. Told apart from paths that mean nothing, so that clients see the
// reason.
constexpr std::string_view kOtherTasks[] = {"/v1/embeddings", "/v1/audio/", "/pooling",
                                            "/classify",      "/v1/score",  "/score",
                                            "/rerank",        "/v1/rerank", "/v2/rerank"};

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// Escapes that are not %XX stay as they are.
std::string decode_percent(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* begin = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(begin, begin + 2, byte, 16).ptr == begin + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

Json card(const ModelInfo& model, const std::string& name, int64_t created) {
  Json capabilities = Json::object();
  capabilities.set("text", Json::boolean(model.has_text));
  capabilities.set("image", Json::boolean(false));
  capabilities.set("tools", Json::boolean(false));
  capabilities.set("reasoning", Json::boolean(model.has_chat));
  Json out = Json::object();
  out.set("id", Json::string(name));
  out.set("object", Json::string("model"));
  out.set("created", Json::integer(created));
  out.set("owned_by", Json::string("stoker"));
  out.set("root", Json::string(model.path));
  out.set("parent", Json());
  out.set("max_model_len", Json::integer(model.max_context_tokens));
  out.set("permission", Json::array());
  out.set("capabilities", std::move(capabilities));
  return out;
}

bool is_generation(Target target) {
  return target == Target::kCompletions || target == Target::kChat;
}

}  // namespace

Target target_of(std::string_view path) {
  if (path == "/health") return Target::kHealth;
  if (path == "/v1/models") return Target::kModels;
  if (path == "/v1/completions") return Target::kCompletions;
  if (path == "/v1/chat/completions") return Target::kChat;
  if (starts_with(path, kModelPrefix) && path.size() > kModelPrefix.size()) return Target::kModel;
  return Target::kUnknown;
}

const char* allowed_methods(Target target) {
  if (target == Target::kUnknown) return "GET, HEAD, POST, OPTIONS";
  return is_generation(target) ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
}

std::optional<HttpError> check_head(const HttpRequest& request) {
  if (request.method == "OPTIONS") return std::nullopt;
  const Target target = target_of(request.path);
  if (target == Target::kUnknown) {
    const bool is_other_task =
        std::any_of(std::begin(kOtherTasks), std::end(kOtherTasks),
                    [&](std::string_view task) { return starts_with(request.path, task); });
    const std::string path = request.path.substr(0, 200);
    if (is_other_task)
      return HttpError{404, "the served model does not support the task of " + path, "", ""};
    return HttpError{404, "there is no " + path + " here", "", ""};
  }
  const bool is_read = request.method == "GET" || request.method == "HEAD";
  if (is_generation(target) ? request.method != "POST" : !is_read) {
    return HttpError{405,
                     "expected one of " + std::string(allowed_methods(target)) + ", found " +
                         request.method.substr(0, 40),
                     "", ""};
  }
  if (!is_generation(target)) return std::nullopt;
  if (request.content_type != "application/json") {
    return HttpError{
        415,
        "Content-Type: expected application/json, found " +
            (request.content_type.empty() ? "none" : request.content_type.substr(0, 80)),
        "", ""};
  }
  if (!request.content_encoding.empty() && request.content_encoding != "identity") {
    return HttpError{
        415, "Content-Encoding: expected none, found " + request.content_encoding.substr(0, 80), "",
        ""};
  }
  return std::nullopt;
}

std::string models_json(const ModelInfo& model, const std::vector<std::string>& names,
                        int64_t created) {
  Json data = Json::array();
  for (const std::string& name : names) data.push(card(model, name, created));
  Json out = Json::object();
  out.set("object", Json::string("list"));
  out.set("data", std::move(data));
  return out.dump();
}

std::optional<std::string> model_json(const ModelInfo& model, const std::vector<std::string>& names,
                                      int64_t created, std::string_view path) {
  const std::string id = decode_percent(path.substr(kModelPrefix.size()));
  if (std::find(names.begin(), names.end(), id) == names.end()) return std::nullopt;
  return card(model, id, created).dump();
}

}  // namespace stoker
