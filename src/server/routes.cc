#include "server/routes.h"

#include <algorithm>

#include "base/check.h"
#include "base/json.h"
#include "server/http_query.h"

namespace stoker {
namespace {

constexpr std::string_view kMessagesPath = "/v1/messages";
constexpr std::string_view kResponsesBelow = "/v1/responses/";

// Tasks that other models have. Told apart from paths that mean nothing, so that clients see the
// reason.
constexpr std::string_view kOtherTasks[] = {"/v1/embeddings", "/v1/audio/", "/pooling",
                                            "/classify",      "/v1/score",  "/score",
                                            "/rerank",        "/v1/rerank", "/v2/rerank"};

constexpr const char* kJsonType = "application/json";
constexpr const char* kFormType = "multipart/form-data";

constexpr RouteRow kRoutes[] = {
    {"/", Target::kPage, Method::kGet, Access::kAll},
    {"/health", Target::kHealth, Method::kGet, Access::kAll},
    {"/ping", Target::kPing, Method::kGetOrPost, Access::kAll},
    {"/live", Target::kLive, Method::kGet, Access::kAll},
    {"/ready", Target::kReady, Method::kGet, Access::kAll},
    {"/version", Target::kVersion, Method::kGet, Access::kAll},
    {"/load", Target::kLoad, Method::kGet, Access::kAll},
    {"/metrics", Target::kMetrics, Method::kGet, Access::kAll},
    {"/openapi.json", Target::kOpenApi, Method::kGet, Access::kAll},
    {"/v1/models", Target::kModels, Method::kGet, Access::kClients},
    {"/v1/models/{id}", Target::kModel, Method::kGet, Access::kClients},
    {"/tokenizer_info", Target::kTokenizerInfo, Method::kGet, Access::kClients},
    {"/tokenize", Target::kTokenize, Method::kPost, Access::kClients, Service::kEngine, kJsonType},
    {"/detokenize", Target::kDetokenize, Method::kPost, Access::kClients, Service::kEngine,
     kJsonType},
    {"/v1/completions", Target::kCompletions, Method::kPost, Access::kClients, Service::kEngine,
     kJsonType},
    {"/v1/chat/completions", Target::kChat, Method::kPost, Access::kClients, Service::kEngine,
     kJsonType},
    {kMessagesPath, Target::kMessages, Method::kPost, Access::kClients, Service::kEngine,
     kJsonType},
    {"/v1/messages/count_tokens", Target::kCountTokens, Method::kPost, Access::kClients,
     Service::kEngine, kJsonType},
    {"/v1/responses", Target::kResponses, Method::kPost, Access::kClients, Service::kEngine,
     kJsonType},
    {"/inference/v1/generate", Target::kGenerate, Method::kPost, Access::kClients, Service::kEngine,
     kJsonType},
    {"/v1/files", Target::kFiles, Method::kGetOrPost, Access::kClients, Service::kStorage,
     kFormType},
    {"/v1/files/{id}/content", Target::kFileContent, Method::kGet, Access::kClients,
     Service::kStorage},
    {"/v1/files/{id}", Target::kFile, Method::kGetOrDelete, Access::kClients, Service::kStorage},
    {"/v1/batches", Target::kBatches, Method::kGetOrPost, Access::kClients, Service::kStorage,
     kJsonType},
    {"/v1/batches/{id}/cancel", Target::kBatchCancel, Method::kPost, Access::kClients,
     Service::kStorage},
    {"/v1/batches/{id}", Target::kBatch, Method::kGet, Access::kClients, Service::kStorage},
    {"/server_info", Target::kServerInfo, Method::kGet, Access::kAdmins},
    {"/reset_prefix_cache", Target::kResetPrefixCache, Method::kPost, Access::kAdmins},
    {"/pause", Target::kPause, Method::kPost, Access::kAdmins},
    {"/resume", Target::kResume, Method::kPost, Access::kAdmins},
    {"/abort_requests", Target::kAbortRequests, Method::kPost, Access::kAdmins, Service::kPlain,
     kJsonType},
    {"/admin/snapshot", Target::kSnapshot, Method::kPost, Access::kAdmins, Service::kPlain,
     kJsonType},
    {"/is_paused", Target::kIsPaused, Method::kGet, Access::kAdmins},
    {"/sleep", Target::kSleep, Method::kPost, Access::kAdmins},
    {"/wake_up", Target::kWakeUp, Method::kPost, Access::kAdmins},
    {"/is_sleeping", Target::kIsSleeping, Method::kGet, Access::kAdmins},
    {"/start_profile", Target::kStartProfile, Method::kPost, Access::kAdmins},
    {"/stop_profile", Target::kStopProfile, Method::kPost, Access::kAdmins},
};
constexpr std::string_view kIdMark = "{id}";

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// The text that stands for "{id}" in a path of that row: nothing for a path of another one; the
// empty text for a row without an id.
std::optional<std::string_view> match(const RouteRow& row, std::string_view path) {
  const size_t mark = row.path.find(kIdMark);
  if (mark == std::string_view::npos)
    return row.path == path ? std::optional(std::string_view()) : std::nullopt;
  const std::string_view prefix = row.path.substr(0, mark);
  const std::string_view suffix = row.path.substr(mark + kIdMark.size());
  const bool is_long_enough = path.size() > prefix.size() + suffix.size();
  if (!is_long_enough || !starts_with(path, prefix) || !path.ends_with(suffix)) return std::nullopt;
  return path.substr(prefix.size(), path.size() - prefix.size() - suffix.size());
}

Json card(const ModelInfo& model, const std::string& name, int64_t created) {
  Json capabilities = Json::object();
  capabilities.set("text", Json::boolean(model.has_text));
  capabilities.set("image", Json::boolean(false));
  capabilities.set("tools", Json::boolean(model.has_chat));
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

const RouteRow* row_of(Target target) {
  const auto* row = std::find_if(std::begin(kRoutes), std::end(kRoutes),
                                 [target](const RouteRow& r) { return r.target == target; });
  return row == std::end(kRoutes) ? nullptr : row;
}

bool is_allowed(Method allowed, std::string_view method) {
  const bool is_read = method == "GET" || method == "HEAD";
  if (allowed == Method::kGetOrPost) return is_read || method == "POST";
  if (allowed == Method::kGetOrDelete) return is_read || method == "DELETE";
  return allowed == Method::kPost ? method == "POST" : is_read;
}

HttpError no_such_path(const HttpRequest& request) {
  const std::string path = request.path.substr(0, 200);
  const bool is_other_task =
      std::any_of(std::begin(kOtherTasks), std::end(kOtherTasks),
                  [&](std::string_view task) { return starts_with(request.path, task); });
  if (is_other_task) return {404, "the served model does not support the task of " + path, "", ""};
  if (starts_with(request.path, kResponsesBelow))
    return {404, "there is no " + path + ": responses are not stored", "", ""};
  return {404, "there is no " + path + " here", "", ""};
}

std::optional<HttpError> check_access(const RouteRow& row, const HttpRequest& request,
                                      const AccessRules& rules, const Caller& caller) {
  if (row.access == Access::kAdmins && rules.admins.empty()) return no_such_path(request);
  if (!needs_key(row, rules)) return std::nullopt;
  const bool may_ask = row.access == Access::kAll      ? caller.is_client || caller.is_admin
                       : row.access == Access::kAdmins ? caller.is_admin
                                                       : caller.is_client;
  if (may_ask) return std::nullopt;
  const std::string whose = row.access == Access::kAdmins ? "an administrator's key" : "a key";
  return HttpError{401,
                   "expected " + whose + " as \"Authorization: Bearer KEY\", found " +
                       (request.key.empty() ? "none" : "one that is not valid here"),
                   "", ""};
}

std::optional<HttpError> check_media(const char* expected, const HttpRequest& request) {
  if (request.content_type != expected) {
    return HttpError{
        415,
        std::string("Content-Type: expected ") + expected + ", found " +
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

}  // namespace

std::span<const RouteRow> route_rows() {
  return kRoutes;
}

bool needs_key(const RouteRow& row, const AccessRules& rules) {
  if (row.access == Access::kClients) return !rules.clients.empty();
  return row.access == Access::kAdmins ||
         (row.target == Target::kMetrics && rules.metrics_need_key);
}

const char* missing_option(const RouteRow& row, const AccessRules& rules) {
  const bool is_profile = row.target == Target::kStartProfile || row.target == Target::kStopProfile;
  if (is_profile && !rules.has_profiles) return "--profile-dir";
  return row.service == Service::kStorage && !rules.has_storage ? "--batch-dir" : nullptr;
}

bool is_there(const RouteRow& row, const AccessRules& rules) {
  if (row.access == Access::kAdmins && rules.admins.empty()) return false;
  return missing_option(row, rules) == nullptr;
}

Target target_of(std::string_view path) {
  for (const RouteRow& row : kRoutes) {
    if (match(row, path)) return row.target;
  }
  return Target::kUnknown;
}

std::string id_of(std::string_view path) {
  const RouteRow* row = row_of(target_of(path));
  return row == nullptr ? std::string() : decode_percent(*match(*row, path));
}

Service service_of(Target target) {
  const RouteRow* row = row_of(target);
  return row == nullptr ? Service::kPlain : row->service;
}

ErrorForm error_form_of(std::string_view path) {
  const bool is_below = starts_with(path, kMessagesPath) &&
                        (path.size() == kMessagesPath.size() || path[kMessagesPath.size()] == '/');
  return is_below ? ErrorForm::kAnthropic : ErrorForm::kOpenAi;
}

bool is_probe(Target target) {
  switch (target) {
    case Target::kHealth:
    case Target::kPing:
    case Target::kLive:
    case Target::kReady:
    case Target::kLoad:
    case Target::kMetrics:
      return true;
    default:
      return false;
  }
}

std::string handler_name(Target target) {
  const RouteRow* row = row_of(target);
  return row == nullptr ? "none" : std::string(row->path);
}

const char* allowed_methods(Target target) {
  const RouteRow* row = row_of(target);
  if (row == nullptr) return "GET, HEAD, POST, DELETE, OPTIONS";
  switch (row->method) {
    case Method::kGet:
      return "GET, HEAD, OPTIONS";
    case Method::kPost:
      return "POST, OPTIONS";
    case Method::kGetOrPost:
      return "GET, HEAD, POST, OPTIONS";
    case Method::kGetOrDelete:
      return "GET, HEAD, DELETE, OPTIONS";
  }
  CHECK(false, "every method has its row");
}

Caller caller_of(const HttpRequest& request, const AccessRules& rules) {
  Caller caller;
  if (request.key.empty()) return caller;
  const std::string* client = rules.clients.name_of(request.key);
  const std::string* admin = rules.admins.name_of(request.key);
  caller.is_client = client != nullptr;
  caller.is_admin = admin != nullptr;
  if (admin != nullptr) caller.name = *admin;
  if (client != nullptr) caller.name = *client;
  return caller;
}

std::optional<HttpError> check_head(const HttpRequest& request, const AccessRules& rules,
                                    const Caller& caller) {
  const Target target = target_of(request.path);
  const RouteRow* row = row_of(target);
  if (request.method == "OPTIONS") return std::nullopt;
  if (row == nullptr) return no_such_path(request);
  if (auto refusal = check_access(*row, request, rules, caller)) return refusal;
  if (!is_allowed(row->method, request.method)) {
    return HttpError{405,
                     "expected one of " + std::string(allowed_methods(target)) + ", found " +
                         request.method.substr(0, 40),
                     "", ""};
  }
  if (const char* option = missing_option(*row, rules)) {
    return HttpError{404, "there is no " + request.path.substr(0, 200) + " here without " + option,
                     "", ""};
  }
  const bool has_media = row->media_type != nullptr && request.method == "POST";
  return has_media ? check_media(row->media_type, request) : std::nullopt;
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
  const std::string id = id_of(path);
  if (std::find(names.begin(), names.end(), id) == names.end()) return std::nullopt;
  return card(model, id, created).dump();
}

}  // namespace stoker
