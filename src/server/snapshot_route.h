// The route by which an administrator has the engine saved as a snapshot: what is asked and what is
// answered. Knows no sockets.
#pragma once

#include <string>
#include <string_view>

#include "server/http_error.h"
#include "stoker/result.h"
#include "stoker/snapshot_info.h"

namespace stoker {

/// The most that the body of such a request may have.
constexpr size_t kMaxSnapshotBodyBytes = size_t{16} << 10;

/// {"name": string, "prefixes": 0 to kMaxSavedPrefixes}, each of which may be left out or null.
/// Errors: those of Json::parse, kInvalidArgument with the field.
Result<SaveSnapshot> read_snapshot_order(std::string_view body);

/// What is answered once it is saved.
std::string saved_snapshot_json(const SavedSnapshot& saved);

/// Why it was not saved: status as for any error, type as that of Python, by which one tells damage
/// from what else is a 500.
HttpError snapshot_http_error(const Error& error);

}  // namespace stoker
