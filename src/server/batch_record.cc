#include "server/batch_record.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/try.h"
#include "server/field_readers.h"
#include "server/identity.h"
#include "server/state_folder.h"

namespace stoker {
namespace {

constexpr int64_t kStateVersion = 1;
constexpr const char* kWindow = "24h";
constexpr int64_t kWindowSeconds = int64_t{24} * 3600;
constexpr int64_t kMaxSeconds = int64_t{1} << 53;  // of a time that is believed
constexpr size_t kMaxPairs = 16;                   // of metadata
constexpr size_t kMaxKeyBytes = 64;
constexpr size_t kMaxValueBytes = 512;

struct StatusName {
  BatchStatus status;
  const char* name;
  const char* since;  // the member that tells when it began
};

constexpr std::array<StatusName, 7> kStatusNames = {{
    {BatchStatus::kValidating, "validating", "created_at"},
    {BatchStatus::kInProgress, "in_progress", "in_progress_at"},
    {BatchStatus::kFinalizing, "finalizing", "finalizing_at"},
    {BatchStatus::kCompleted, "completed", "completed_at"},
    {BatchStatus::kFailed, "failed", "failed_at"},
    {BatchStatus::kCancelling, "cancelling", "cancelling_at"},
    {BatchStatus::kCancelled, "cancelled", "cancelled_at"},
}};

Json faults_json(const std::vector<BatchFault>& faults) {
  if (faults.empty()) return {};
  Json data = Json::array();
  for (const BatchFault& fault : faults) {
    Json one = Json::object();
    one.set("code", Json::string(fault.code));
    one.set("line", fault.line == 0 ? Json() : Json::integer(fault.line));
    one.set("message", Json::string(fault.message));
    one.set("param", fault.param.empty() ? Json() : Json::string(fault.param));
    data.push(std::move(one));
  }
  Json out = Json::object();
  out.set("object", Json::string("list"));
  out.set("data", std::move(data));
  return out;
}

Json counts_json(const BatchRecord& record) {
  Json out = Json::object();
  out.set("total", Json::integer(record.num_total));
  out.set("completed", Json::integer(record.num_completed));
  out.set("failed", Json::integer(record.num_failed));
  return out;
}

Json record_json(const BatchRecord& record) {
  Json out = Json::object();
  out.set("id", Json::string(record.id));
  out.set("object", Json::string("batch"));
  out.set("endpoint", Json::string(batch_endpoint(record.order.route)));
  out.set("errors", faults_json(record.faults));
  out.set("input_file_id", Json::string(record.order.input_file_id));
  out.set("completion_window", Json::string(kWindow));
  out.set("status", Json::string(to_string(record.status)));
  out.set("output_file_id", record.has_output ? Json::string(record.output_id) : Json());
  out.set("error_file_id", record.has_errors ? Json::string(record.error_id) : Json());
  for (const StatusName& row : kStatusNames) {
    const auto found = record.since.find(row.status);
    out.set(row.since, found == record.since.end() ? Json() : Json::integer(found->second));
  }
  out.set("expires_at", Json::integer(record.expires_at()));
  out.set("expired_at", Json());
  out.set("request_counts", counts_json(record));
  out.set("metadata", record.order.metadata);
  return out;
}

// Null where there is none. Lives as long as the object.
const Json& member_of(const Json& object, const char* name) {
  static const Json none;
  const Json* found = object.find(name);
  return found == nullptr ? none : *found;
}

Result<std::string> read_string(const Json& body, const char* name, const std::string& expected) {
  const Json& value = member_of(body, name);
  if (!value.is_string()) return wrong_value(name, expected, value);
  return value.as_string();
}

std::optional<Route> route_of_endpoint(std::string_view endpoint) {
  for (const Route route : {Route::kChat, Route::kCompletions}) {
    if (endpoint == batch_endpoint(route)) return route;
  }
  return std::nullopt;
}

bool is_metadata(const Json& value) {
  if (value.is_null()) return true;
  const auto is_pair = [](const Json::Member& member) {
    return member.first.size() <= kMaxKeyBytes && member.second.is_string() &&
           member.second.as_string().size() <= kMaxValueBytes;
  };
  return value.is_object() && value.members().size() <= kMaxPairs &&
         std::all_of(value.members().begin(), value.members().end(), is_pair);
}

Error damaged_state(const std::string& what) {
  return {ErrorCode::kCorruptData, "the state of the batch: expected " + what, ""};
}

Result<void> read_faults(const Json& errors, BatchRecord& record) {
  for (const Json& one : member_of(errors, "data").items()) {
    record.faults.push_back(
        {member_of(one, "code").as_string(), member_of(one, "message").as_string(),
         member_of(one, "line").as_int().value_or(0), member_of(one, "param").as_string()});
  }
  if (errors.is_null() == record.faults.empty()) return {};
  return damaged_state("its errors as they were written");
}

Result<void> read_status(const Json& json, BatchRecord& record) {
  const std::string name = member_of(json, "status").as_string();
  const auto* row = std::find_if(kStatusNames.begin(), kStatusNames.end(),
                                 [&name](const StatusName& each) { return name == each.name; });
  if (row == kStatusNames.end()) return damaged_state("a status that there is");
  record.status = row->status;
  for (const StatusName& each : kStatusNames) {
    const auto since = member_of(json, each.since).as_int();
    if (since && *since >= 0 && *since < kMaxSeconds) record.since[each.status] = *since;
  }
  if (record.since.contains(BatchStatus::kValidating)) return {};
  return damaged_state("the time when it was made");
}

Result<void> read_counts(const Json& counts, BatchRecord& record) {
  for (const auto& [name, place] :
       {std::pair{"total", &record.num_total}, std::pair{"completed", &record.num_completed},
        std::pair{"failed", &record.num_failed}}) {
    const auto count = member_of(counts, name).as_int();
    if (!count || *count < 0) return damaged_state("counts of requests");
    *place = *count;
  }
  return {};
}

}  // namespace

const char* to_string(BatchStatus status) {
  return kStatusNames[static_cast<size_t>(status)].name;
}

bool is_over(BatchStatus status) {
  return status == BatchStatus::kCompleted || status == BatchStatus::kFailed ||
         status == BatchStatus::kCancelled;
}

const char* batch_endpoint(Route route) {
  return route == Route::kChat ? "/v1/chat/completions" : "/v1/completions";
}

Result<BatchOrder> parse_batch_order(std::string_view body) {
  TRY_ASSIGN(const Json json, Json::parse(body));
  if (!json.is_object()) return wrong_value("the body", "a JSON object", json);
  BatchOrder order;
  TRY_ASSIGN(order.input_file_id, read_string(json, "input_file_id", "the id of a file"));
  const std::string endpoints = "/v1/chat/completions or /v1/completions";
  TRY_ASSIGN(const std::string endpoint, read_string(json, "endpoint", endpoints));
  const auto route = route_of_endpoint(endpoint);
  if (!route) return wrong_value("endpoint", endpoints, member_of(json, "endpoint"));
  order.route = *route;
  TRY_ASSIGN(const std::string window, read_string(json, "completion_window", kWindow));
  if (window != kWindow)
    return wrong_value("completion_window", kWindow, member_of(json, "completion_window"));
  order.metadata = member_of(json, "metadata");
  if (!is_metadata(order.metadata))
    return wrong_value("metadata", "an object of at most 16 strings, of 512 bytes at most",
                       order.metadata);
  const Json& expiry = member_of(json, "output_expires_after");
  if (expiry.is_null()) return order;
  return Error{ErrorCode::kUnsupported,
               "output_expires_after: expected none, since files stay until they are deleted",
               "output_expires_after"};
}

void BatchRecord::enter(BatchStatus next) {
  status = next;
  since[next] = unix_seconds();
}

int64_t BatchRecord::created_at() const {
  const auto found = since.find(BatchStatus::kValidating);
  return found == since.end() ? 0 : found->second;
}

int64_t BatchRecord::expires_at() const {
  return created_at() + kWindowSeconds;
}

std::string batch_json(const BatchRecord& record) {
  return record_json(record).dump();
}

std::string batch_state_text(const BatchRecord& record) {
  Json out = record_json(record);
  out.set("version", Json::integer(kStateVersion));
  out.set("output_id", Json::string(record.output_id));
  out.set("error_id", Json::string(record.error_id));
  return out.dump() + "\n";
}

Result<BatchRecord> parse_batch_state(std::string_view text, const std::string& id,
                                      const std::string& owner) {
  const auto json = Json::parse(text);
  if (!json || !json->is_object() || member_of(*json, "id").as_string() != id)
    return damaged_state("a JSON object with its id");
  const auto version = member_of(*json, "version").as_int();
  if (version != kStateVersion) {
    return Error{ErrorCode::kUnsupported,
                 "the state of the batch: expected version " + std::to_string(kStateVersion) +
                     ", found " + (version ? std::to_string(*version) : "none"),
                 ""};
  }
  BatchRecord record;
  record.id = id;
  record.owner = owner;
  const auto route = route_of_endpoint(member_of(*json, "endpoint").as_string());
  record.order = {member_of(*json, "input_file_id").as_string(), route.value_or(Route::kChat),
                  member_of(*json, "metadata")};
  record.output_id = member_of(*json, "output_id").as_string();
  record.error_id = member_of(*json, "error_id").as_string();
  record.has_output = !member_of(*json, "output_file_id").is_null();
  record.has_errors = !member_of(*json, "error_file_id").is_null();
  if (!route || !is_metadata(record.order.metadata)) return damaged_state("what was asked for");
  if (!is_stored_id(record.output_id, kFilePrefix) || !is_stored_id(record.error_id, kFilePrefix))
    return damaged_state("ids of files");
  if (auto read = read_status(*json, record); !read) return std::move(read).error();
  if (auto read = read_faults(member_of(*json, "errors"), record); !read)
    return std::move(read).error();
  auto read = read_counts(member_of(*json, "request_counts"), record);
  if (!read) return std::move(read).error();
  return record;
}

}  // namespace stoker
