// Paths and methods: what each route is, who may use it, and what can be refused by the head of a
// request alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_error.h"
#include "server/http_parser.h"
#include "server/keys.h"
#include "stoker/engine.h"

namespace stoker {

enum class Target {
  kUnknown,
  // Open to everybody.
  kPage,
  kHealth,
  kPing,
  kLive,
  kReady,
  kVersion,
  kLoad,
  kMetrics,
  kOpenApi,
  // For clients.
  kModels,
  kModel,
  kTokenizerInfo,
  kTokenize,
  kDetokenize,
  kCompletions,
  kChat,
  kMessages,
  kCountTokens,
  kResponses,
  kGenerate,
  // For clients, of what is stored.
  kFiles,
  kFile,
  kFileContent,
  kBatches,
  kBatch,
  kBatchCancel,
  // For administrators.
  kServerInfo,
  kResetPrefixCache,
  kPause,
  kResume,
  kIsPaused,
  kSleep,
  kWakeUp,
  kIsSleeping,
  kStartProfile,
  kStopProfile,
  kAbortRequests,
  kSnapshot,
};

/// What answers a target.
enum class Service {
  kPlain,    ///< the server's thread, at once
  kEngine,   ///< the engine; the workers read its JSON body
  kStorage,  ///< what is on disk, read and written by a thread of its own
};

enum class Access { kAll, kClients, kAdmins };
enum class Method { kGet, kPost, kGetOrPost, kGetOrDelete };

/// One route.
struct RouteRow {
  std::string_view path;  ///< "{id}" stands for any text
  Target target;
  Method method;
  Access access;
  Service service = Service::kPlain;
  const char* media_type = nullptr;  ///< that a POST must have
};

/// All routes.
std::span<const RouteRow> route_rows();

/// What the path of a request means.
Target target_of(std::string_view path);

/// The id in the path of a target that has one in the middle or at the end, decoded; else empty.
std::string id_of(std::string_view path);

Service service_of(Target target);

/// Whether it is asked again and again by those who watch: told to the log as debug lines alone.
bool is_probe(Target target);

/// In whose shape failures of a path are told, paths that are not here included.
ErrorForm error_form_of(std::string_view path);

/// Its path, for metrics; "none" for kUnknown.
std::string handler_name(Target target);

/// The methods of a target, as the Allow header has them; for kUnknown, all there are.
const char* allowed_methods(Target target);

/// Who may ask what. Without keys of clients everybody may; without keys of administrators their
/// routes do not exist.
struct AccessRules {
  KeyRing clients;
  KeyRing admins;
  bool metrics_need_key = false;  ///< one of a client or an administrator
  bool has_storage = false;       ///< there are routes of files and batches
  bool has_profiles = false;      ///< and of profiles
};

/// Who asks, by the key that the request shows.
struct Caller {
  std::string name;  ///< of the key; empty: it shows none, or one that is not known
  bool is_client = false;
  bool is_admin = false;
};

/// Whether those who ask must show a key.
bool needs_key(const RouteRow& row, const AccessRules& rules);

/// The option that a route is not there without, if it is not given; else null.
const char* missing_option(const RouteRow& row, const AccessRules& rules);

/// Whether there is such a route.
bool is_there(const RouteRow& row, const AccessRules& rules);

Caller caller_of(const HttpRequest& request, const AccessRules& rules);

/// What is wrong with a request, as far as its head tells: path, key, method, media type. OPTIONS
/// passes everywhere.
std::optional<HttpError> check_head(const HttpRequest& request, const AccessRules& rules,
                                    const Caller& caller);

/// {"object": "list", "data": [card of each served name]}.
std::string models_json(const ModelInfo& model, const std::vector<std::string>& names,
                        int64_t created);

/// The card of the model that "/v1/models/{id}" names, or nothing. The id may have slashes and
/// percent escapes.
std::optional<std::string> model_json(const ModelInfo& model, const std::vector<std::string>& names,
                                      int64_t created, std::string_view path);

}  // namespace stoker
