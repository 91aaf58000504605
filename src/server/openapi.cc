#include "server/openapi.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "server/api_schemas.h"
#include "server/fields.h"
#include "server/storage_routes.h"
#include "stoker/version.h"

namespace stoker {
namespace {

constexpr const char* kJson = "application/json";
constexpr const char* kEvents = "text/event-stream";

// What a route does for one method, as far as its row does not say it.
struct Operation {
  Target target;
  std::string_view method;
  const char* summary;
  const char* media_type;  // of the answer; null: there is no body
  bool needs_engine = true;
  const char* body = nullptr;  // the name of its schema
  bool can_stream = false;
  std::vector<std::string_view> query = {};
};

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {Target::kPage, "get", "A page to try a chat and to watch the server", "text/html", false},
      {Target::kHealth, "get", "Whether the engine takes steps", nullptr},
      {Target::kPing, "get", "Whether the engine takes steps", nullptr},
      {Target::kPing, "post", "Whether the engine takes steps", nullptr},
      {Target::kLive, "get", "Whether the server answers", nullptr, false},
      {Target::kReady, "get", "Whether requests are taken", kJson},
      {Target::kVersion, "get", "Versions of the server and the model", kJson, false},
      {Target::kLoad, "get", "Requests that are under way", kJson, false},
      {Target::kMetrics, "get", "Numbers for Prometheus", "text/plain", false},
      {Target::kOpenApi, "get", "This document", kJson, false},
      {Target::kModels, "get", "Cards of the served names", kJson},
      {Target::kModel, "get", "The card of a served name, which may hold slashes", kJson},
      {Target::kTokenizerInfo, "get", "The tokenizer's first and last token", kJson},
      {Target::kTokenize, "post", "Text or messages to token ids", kJson, true, "TokenizeRequest"},
      {Target::kDetokenize, "post", "Token ids to text", kJson, true, "DetokenizeRequest"},
      {Target::kCompletions, "post", "Continues a text", kJson, true, "CompletionRequest", true},
      {Target::kChat, "post", "Answers a conversation", kJson, true, "ChatRequest", true},
      {Target::kMessages, "post", "Answers a conversation, as Anthropic's clients have it", kJson,
       true, "MessagesRequest", true},
      {Target::kCountTokens, "post", "Counts the tokens of a conversation", kJson, true,
       "CountTokensRequest"},
      {Target::kResponses, "post", "Answers a conversation of items", kJson, true,
       "ResponsesRequest", true},
      {Target::kGenerate, "post", "Continues token ids", kJson, true, "GenerateRequest", true},
      {Target::kFiles,
       "get",
       "Lists files",
       kJson,
       false,
       nullptr,
       false,
       {"limit", "order", "after", "purpose"}},
      {Target::kFiles, "post", "Uploads a file", kJson, false, "FileUpload"},
      {Target::kFileContent, "get", "What is in a file", kFileMediaType, false},
      {Target::kFile, "get", "Tells about a file", kJson, false},
      {Target::kFile, "delete", "Deletes a file", kJson, false},
      {Target::kBatches,
       "get",
       "Lists batches",
       kJson,
       false,
       nullptr,
       false,
       {"limit", "order", "after"}},
      {Target::kBatches, "post", "Makes a batch", kJson, false, "BatchRequest"},
      {Target::kBatchCancel, "post", "Ends a batch before its time", kJson, false},
      {Target::kBatch, "get", "Tells about a batch", kJson, false},
      {Target::kServerInfo, "get", "What is served", kJson, false},
      {Target::kResetPrefixCache, "post", "Forgets cached prefixes", nullptr},
      {Target::kPause, "post", "New requests are refused from now on", nullptr, false},
      {Target::kResume, "post", "New requests are taken again", nullptr, false},
      {Target::kAbortRequests, "post", "Ends requests by their ids", kJson, false, "AbortRequest"},
      {Target::kSnapshot, "post", "Saves the engine as a snapshot", kJson, true, "SnapshotRequest"},
      {Target::kIsPaused, "get", "Whether the server is paused", kJson, false},
      {Target::kSleep,
       "post",
       "New requests are refused, and memory is given back",
       nullptr,
       true,
       nullptr,
       false,
       {"level", "mode"}},
      {Target::kWakeUp,
       "post",
       "New requests are taken again",
       nullptr,
       true,
       nullptr,
       false,
       {"tags"}},
      {Target::kStartProfile, "post", "Steps are remembered from now on", nullptr},
      {Target::kStopProfile, "post", "Writes what steps were remembered", kJson},
      {Target::kIsSleeping, "get", "Whether the server sleeps", kJson},
  };
  return all;
}

// Bodies that a table of fields describes.
struct FieldBody {
  const char* name;
  Route route;
};

constexpr FieldBody kFieldBodies[] = {
    {"CompletionRequest", Route::kCompletions}, {"ChatRequest", Route::kChat},
    {"MessagesRequest", Route::kMessages},      {"CountTokensRequest", Route::kCountTokens},
    {"ResponsesRequest", Route::kResponses},    {"GenerateRequest", Route::kGenerate},
};

Json parsed_schema(const char* text) {
  auto schema = Json::parse(text);
  CHECK(schema.has_value(), "the tables hold JSON");
  return *std::move(schema);
}

Json one_member(std::string name, Json value) {
  Json out = Json::object();
  out.set(std::move(name), std::move(value));
  return out;
}

Json strings(std::span<const char* const> texts) {
  Json out = Json::array();
  for (const char* text : texts) out.push(Json::string(text));
  return out;
}

Json reference_to(const std::string& name) {
  return one_member("$ref", Json::string("#/components/schemas/" + name));
}

// Null is what absent is, where absent may be.
Json or_null(Json schema) {
  Json choices = Json::array();
  choices.push(std::move(schema));
  choices.push(one_member("type", Json::string("null")));
  return one_member("anyOf", std::move(choices));
}

Json field_schema(const Field& field, bool is_required) {
  const char* text = schema_of(field.values);
  CHECK(text != nullptr, "api_schemas.cc has a schema for what each field takes");
  Json schema = parsed_schema(text);
  if (!is_required) schema = or_null(std::move(schema));
  if (*field.comment != '\0') schema.set("description", Json::string(field.comment));
  return schema;
}

// An object with the supported fields of a place.
Json fields_schema(FieldPlace place, std::span<const char* const> required) {
  Json properties = Json::object();
  for (const Field& field : request_fields()) {
    if (!field.is_in(place) || field.read == nullptr) continue;
    const bool is_required = std::any_of(required.begin(), required.end(), [&](const char* name) {
      return std::string_view(name) == field.name;
    });
    properties.set(field.name, field_schema(field, is_required));
  }
  Json out = one_member("type", Json::string("object"));
  out.set("properties", std::move(properties));
  if (!required.empty()) out.set("required", strings(required));
  return out;
}

Json schemas_json() {
  Json out = Json::object();
  for (const FieldBody& body : kFieldBodies)
    out.set(body.name, fields_schema(place_of(body.route), required_fields(body.route)));
  Json sampling = fields_schema(kInSamplingParams, {});
  sampling.set("additionalProperties", Json::boolean(false));
  out.set("SamplingParams", std::move(sampling));
  for (const NamedSchema& named : named_schemas()) out.set(named.name, parsed_schema(named.schema));
  return out;
}

Json content_json(const char* media_type, Json schema) {
  return one_member(media_type, one_member("schema", std::move(schema)));
}

// The statuses of failures that an operation may answer with.
std::vector<int> failures_of(const RouteRow& row, const Operation& operation, bool has_key) {
  std::vector<int> out = {400, 408, 431};
  const auto add_if = [&out](bool is_so, std::initializer_list<int> more) {
    if (is_so) out.insert(out.end(), more);
  };
  const bool is_engine = row.service == Service::kEngine;
  const bool is_storage = row.service == Service::kStorage;
  const bool is_snapshot = row.target == Target::kSnapshot;
  add_if(has_key, {401});
  add_if(is_engine || is_storage || is_snapshot || row.path.ends_with("{id}"), {404});
  add_if(operation.method == "post", {413});
  add_if(operation.body != nullptr, {415});
  add_if(is_engine || is_storage || is_snapshot, {429, 500});
  add_if(operation.needs_engine || is_storage, {503});
  add_if(is_engine || is_snapshot, {504});
  std::sort(out.begin(), out.end());
  return out;
}

Json success_json(const Operation& operation) {
  Json out = one_member("description", Json::string("OK"));
  if (operation.media_type == nullptr) return out;
  const char* kind = std::string_view(operation.media_type) == kJson ? "object" : "string";
  Json content = content_json(operation.media_type, one_member("type", Json::string(kind)));
  if (operation.can_stream) {
    Json events = one_member("description", Json::string("with stream: true, an event each"));
    content.set(kEvents, one_member("schema", std::move(events)));
  }
  out.set("content", std::move(content));
  return out;
}

Json responses_json(const RouteRow& row, const Operation& operation, bool has_key) {
  const ErrorForm form = error_form_of(row.path);
  Json out = one_member("200", success_json(operation));
  for (const int failure : failures_of(row, operation, has_key)) {
    const int status = told_status({failure, "", "", ""}, form);
    const bool is_state = row.target == Target::kReady && failure == 503;
    Json response = one_member("description", Json::string(reason_phrase(status)));
    response.set(
        "content",
        content_json(kJson, is_state ? one_member("type", Json::string("object"))
                                     : reference_to(form == ErrorForm::kAnthropic ? "MessagesError"
                                                                                  : "Error")));
    out.set(std::to_string(status), std::move(response));
  }
  return out;
}

Json parameter_json(std::string_view name, const char* place, Json schema) {
  Json out = one_member("name", Json::string(std::string(name)));
  out.set("in", Json::string(place));
  out.set("required", Json::boolean(std::string_view(place) == "path"));
  out.set("schema", std::move(schema));
  return out;
}

Json parameters_json(const RouteRow& row, const Operation& operation) {
  const auto string_schema = [] { return one_member("type", Json::string("string")); };
  Json out = Json::array();
  if (row.path.find("{id}") != std::string_view::npos)
    out.push(parameter_json("id", "path", string_schema()));
  for (const std::string_view name : operation.query) {
    Json schema = string_schema();
    if (name == "limit") schema = parsed_schema(R"({"type":"integer","minimum":1})");
    if (name == "level") schema = parsed_schema(R"({"enum":["0","1","2"]})");
    if (name == "mode") schema = parsed_schema(R"({"enum":["wait","abort"]})");
    if (name == "tags") schema = parsed_schema(R"({"enum":["weights","kv_cache"]})");
    if (name == "order") schema = parsed_schema(R"({"enum":["asc","desc"]})");
    out.push(parameter_json(name, "query", std::move(schema)));
  }
  return out;
}

// Either header shows a key.
Json security_json(const RouteRow& row) {
  const std::string prefix = row.access == Access::kAdmins ? "admin_" : "";
  Json out = Json::array();
  for (const char* scheme : {"bearer", "x_api_key"})
    out.push(one_member(prefix + scheme, Json::array()));
  return out;
}

Json operation_json(const RouteRow& row, const Operation& operation, const AccessRules& access) {
  const bool has_key = needs_key(row, access);
  Json out = one_member("summary", Json::string(operation.summary));
  Json parameters = parameters_json(row, operation);
  if (!parameters.items().empty()) out.set("parameters", std::move(parameters));
  if (operation.body != nullptr) {
    Json body = one_member("required", Json::boolean(true));
    body.set("content", content_json(row.media_type, reference_to(operation.body)));
    out.set("requestBody", std::move(body));
  }
  out.set("responses", responses_json(row, operation, has_key));
  if (has_key) out.set("security", security_json(row));
  return out;
}

bool is_on(const RouteRow& row, const ServerOptions& options, const AccessRules& access) {
  if (row.target == Target::kPage) return options.page;
  if (row.target == Target::kTokenizerInfo) return options.tokenizer_info;
  return is_there(row, access);
}

Json paths_json(const ServerOptions& options, const AccessRules& access) {
  Json out = Json::object();
  for (const RouteRow& row : route_rows()) {
    if (!is_on(row, options, access)) continue;
    Json methods = Json::object();
    for (const Operation& operation : operations()) {
      if (operation.target == row.target)
        methods.set(std::string(operation.method), operation_json(row, operation, access));
    }
    out.set(std::string(row.path), std::move(methods));
  }
  return out;
}

Json security_schemes_json() {
  Json out = Json::object();
  for (const std::string prefix : {"", "admin_"}) {
    out.set(prefix + "bearer", parsed_schema(R"({"type":"http","scheme":"bearer"})"));
    out.set(prefix + "x_api_key",
            parsed_schema(R"({"type":"apiKey","in":"header","name":"X-Api-Key"})"));
  }
  return out;
}

}  // namespace

std::string openapi_json(const ServerOptions& options, const AccessRules& access) {
  Json info = one_member("title", Json::string("Stoker"));
  info.set("version", Json::string(version()));
  info.set("description",
           Json::string("Integers are written without a fraction: 1.0 is none. What the schemas do "
                        "not say is checked, too, and a 400 names the field."));
  Json components = one_member("schemas", schemas_json());
  components.set("securitySchemes", security_schemes_json());
  Json out = one_member("openapi", Json::string("3.1.0"));
  out.set("info", std::move(info));
  out.set("paths", paths_json(options, access));
  out.set("components", std::move(components));
  return out.dump();
}

}  // namespace stoker
