// A snapshot that a running server makes of its engine: asks it, and reads what it answers.
#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/try.h"
#include "catalogue/http_post.h"
#include "snapshot/digest.h"
#include "stoker/snapshot.h"

namespace stoker {
namespace {

constexpr std::chrono::hours kLongestSave{24};
constexpr size_t kMaxToldBytes = 1000;
constexpr JsonLimits kAnswerLimits{.max_depth = 8, .max_values = 10'000};

// Of a server, for a terminal.
std::string printable(std::string text) {
  if (text.size() > kMaxToldBytes) text.resize(kMaxToldBytes);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text;
}

std::string told_text(const Json& object, const char* name) {
  const Json* const value = object.find(name);
  return value != nullptr && value->is_string() ? printable(value->as_string()) : "";
}

int64_t told_count(const Json& object, const char* name) {
  const Json* const value = object.find(name);
  const auto count = value == nullptr ? std::nullopt : value->as_int();
  return std::max(count.value_or(0), int64_t{0});
}

// The code behind what a server of ours tells; by the status where the server itself refuses.
ErrorCode told_code(const std::string& type, int status) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    if (type == error_code_info(code).python_type) return code;
  }
  if (status == 503) return ErrorCode::kOverloaded;  // it starts, stops or sleeps
  return status >= 400 && status < 500 ? ErrorCode::kInvalidArgument : ErrorCode::kIo;
}

Error told_refusal(const std::string& server, const catalogue::HttpAnswer& answer) {
  const std::string where = server + ": ";
  const auto json = Json::parse(answer.body, kAnswerLimits);
  const Json* const error = json ? json->find("error") : nullptr;
  if (error == nullptr || told_text(*error, "message").empty()) {
    return {told_code("", answer.status),
            where + "expected an answer of `stoker serve`, found status " +
                std::to_string(answer.status),
            ""};
  }
  std::string message = where + told_text(*error, "message");
  if (answer.status == 404) message += ": a server without --admin-api-key has no such route";
  return {told_code(told_text(*error, "type"), answer.status), std::move(message),
          told_text(*error, "param")};
}

Result<SavedSnapshot> read_saved(const std::string& server, const std::string& body) {
  const Error other{ErrorCode::kIo, server + ": expected the answer of a snapshot, found another",
                    ""};
  const auto json = Json::parse(body, kAnswerLimits);
  if (!json || !json->is_object()) return other;
  SavedSnapshot saved;
  saved.info.id = told_text(*json, "id");
  if (!snapshot::Digest::from_hex(saved.info.id)) return other;
  saved.info.model_name = told_text(*json, "model");
  saved.info.created = told_text(*json, "created");
  saved.info.num_bytes = told_count(*json, "bytes");
  saved.num_prefixes =
      static_cast<int>(std::min<int64_t>(told_count(*json, "prefixes"), kMaxSavedPrefixes));
  saved.num_prefix_tokens = told_count(*json, "prefix_tokens");
  const Json* const sections = json->find("sections");
  if (sections == nullptr || !sections->is_array()) return other;
  for (const Json& section : sections->items()) {
    if (!section.is_object()) return other;
    saved.info.parts.push_back(
        {told_text(section, "name"), told_text(section, "object"), told_count(section, "bytes")});
  }
  return saved;
}

}  // namespace

Result<SavedSnapshot> save_snapshot_of(const std::string& server, const std::string& admin_key,
                                       const SaveSnapshot& what) {
  Json order = Json::object({{"prefixes", Json::integer(what.max_prefixes)}});
  if (!what.name.empty()) order.set("name", Json::string(what.name));
  TRY_ASSIGN(const catalogue::HttpAnswer answer,
             catalogue::post_json(server, "/admin/snapshot", admin_key, order.dump(),
                                  std::chrono::milliseconds(kLongestSave)));
  if (answer.status != 200) return told_refusal(server, answer);
  return read_saved(server, answer.body);
}

}  // namespace stoker
