#include "server/snapshot_route.h"

#include "base/json.h"
#include "base/try.h"
#include "server/member_readers.h"

namespace stoker {
namespace {

constexpr size_t kMaxShownNameBytes = 40;

}  // namespace

Result<SaveSnapshot> read_snapshot_order(std::string_view body) {
  TRY_ASSIGN(const Json json, Json::parse(body));
  if (!json.is_object()) return wrong_value("body", "an object", json);
  for (const auto& [name, value] : json.members()) {
    if (name == "name" || name == "prefixes") continue;
    const std::string shown = name.substr(0, kMaxShownNameBytes);
    return Error{ErrorCode::kInvalidArgument,
                 shown + ": expected name and prefixes alone, found another field", shown};
  }
  SaveSnapshot order;
  if (const Json* name = find_member(json, "name")) {
    if (!name->is_string()) return wrong_value("name", "a string", *name);
    order.name = name->as_string();
  }
  if (const Json* prefixes = find_member(json, "prefixes")) {
    const auto count = prefixes->as_int();
    if (!count || *count < 0 || *count > kMaxSavedPrefixes)
      return wrong_value("prefixes", "an integer from 0 to " + std::to_string(kMaxSavedPrefixes),
                         *prefixes);
    order.max_prefixes = static_cast<int>(*count);
  }
  return order;
}

std::string saved_snapshot_json(const SavedSnapshot& saved) {
  const SnapshotInfo& info = saved.info;
  Json sections = Json::array();
  for (const SnapshotPart& part : info.parts) {
    sections.push(Json::object({{"name", Json::string(part.name)},
                                {"object", Json::string(part.object)},
                                {"bytes", Json::integer(part.num_bytes)}}));
  }
  return Json::object({{"id", Json::string(info.id)},
                       {"model", Json::string(info.model_name)},
                       {"created", Json::string(info.created)},
                       {"bytes", Json::integer(info.num_bytes)},
                       {"sections", std::move(sections)},
                       {"prefixes", Json::integer(saved.num_prefixes)},
                       {"prefix_tokens", Json::integer(saved.num_prefix_tokens)}})
      .dump();
}

HttpError snapshot_http_error(const Error& error) {
  HttpError told = to_http_error(error);
  told.type = error_code_info(error.code).python_type;
  return told;
}

}  // namespace stoker
