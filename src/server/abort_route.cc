#include "server/abort_route.h"

#include <algorithm>
#include <unordered_set>

#include "base/json.h"
#include "base/try.h"
#include "server/connection.h"
#include "server/identity.h"
#include "server/member_readers.h"

namespace stoker {
namespace {

constexpr size_t kMaxIds = 1024;
constexpr const char* kIds = "request_ids";

// Of requests: what stands in front of them in answers is also taken away, as X-Request-Id may
// begin so too.
Result<std::unordered_set<std::string>> read_request_ids(const Json& body) {
  const Json* list = body.find(kIds);
  const bool is_list = list != nullptr && list->is_array() && list->items().size() <= kMaxIds;
  if (!is_list)
    return wrong_value(kIds, "a list of up to " + std::to_string(kMaxIds) + " ids",
                       list == nullptr ? Json() : *list);
  std::unordered_set<std::string> ids;
  for (const Json& item : list->items()) {
    if (!item.is_string()) return wrong_value(kIds, "strings", item);
    const std::string& id = item.as_string();
    ids.insert(id);
    for (const char* prefix : {kChatPrefix, kCompletionPrefix, kMessagePrefix, kResponsePrefix}) {
      const std::string_view text(prefix);
      if (id.starts_with(text)) ids.insert(id.substr(text.size()));
    }
  }
  return ids;
}

}  // namespace

Result<std::string> abort_answer(const ServerContext& context, std::string_view body) {
  TRY_ASSIGN(const Json json, Json::parse(body));
  TRY_ASSIGN(const auto ids, read_request_ids(json));
  const auto num_aborted =
      std::count_if(context.connections.begin(), context.connections.end(),
                    [&](const auto& connection) { return connection->abort_answer_of(ids); });
  Json out = Json::object();
  out.set("aborted", Json::integer(num_aborted));
  return out.dump();
}

}  // namespace stoker
