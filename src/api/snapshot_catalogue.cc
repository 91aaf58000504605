// Snapshots from catalogues into the store, and from the store into one.
#include <algorithm>
#include <utility>

#include "api/snapshot_travel.h"
#include "api/snapshots.h"
#include "api/stored_weights.h"
#include "base/try.h"
#include "catalogue/signature.h"
#include "catalogue/transfer.h"
#include "catalogue/url.h"
#include "stoker/snapshot_travel.h"

namespace stoker {
namespace {

using catalogue::IndexEntry;
using catalogue::Listed;
using snapshot::Sharing;
using snapshot::Snapshots;
using snapshot::Store;

constexpr size_t kMinIdDigits = 4;  // fewer are rather a name

bool begins_id(const IndexEntry& entry, const std::string& name) {
  return name.size() >= kMinIdDigits && entry.id.hex().starts_with(name);
}

Error not_listed(const std::string& source, const std::string& name, const std::string& why) {
  return {ErrorCode::kNotFound,
          source + ": expected a snapshot of " + name + " that fits here, found " +
              (why.empty() ? "none" : "none" + why),
          ""};
}

// Whether a snapshot has the signature that is asked for.
Result<void> check_listed(const Listed& listed, const SnapshotOptions& options) {
  if (options.require_signature.empty()) return {};
  return catalogue::check_signature(options.require_signature, manifest_text(listed.manifest),
                                    listed.signature);
}

// Why an engine of these options could not come up from it; "" if it could.
std::string why_not_listed(const Result<Listed>& listed, const SnapshotOptions& options) {
  if (!listed) return listed.error().message;
  if (auto can = snapshot::check_can_travel(listed->manifest); !can) return can.error().message;
  if (std::string why = misfit(listed->manifest, options.engine); !why.empty()) return why;
  const auto checked = check_listed(*listed, options);
  return checked ? "" : checked.error().message;
}

// The newest of a name that an engine of these options could come up from.
Result<Listed> newest_that_fits(catalogue::Source& from, const std::string& source,
                                const std::string& name, const std::vector<IndexEntry>& index,
                                const SnapshotOptions& options) {
  std::optional<Listed> best;
  std::string reasons;
  for (const IndexEntry& entry : index) {
    if (entry.model_name != name) continue;
    auto listed = catalogue::read_listed(from, entry.id);
    if (!listed && listed.error().code == ErrorCode::kPeerLost) return listed;
    const std::string why = why_not_listed(listed, options);
    if (!why.empty()) {
      reasons += "; " + entry.id.hex().substr(0, 8) + ": " + why;
    } else if (!best || best->manifest.created < listed->manifest.created) {
      best = *std::move(listed);
    }
  }
  if (!best) return not_listed(source, name, reasons);
  return *std::move(best);
}

// What a name means: the beginning of one id, else the name of a model.
Result<Listed> find_listed(catalogue::Source& from, const std::string& source,
                           const std::string& name, const SnapshotOptions& options) {
  TRY_ASSIGN(const std::vector<IndexEntry> index, catalogue::read_index(from));
  const auto is_meant = [&name](const IndexEntry& entry) { return begins_id(entry, name); };
  const auto found = std::ranges::find_if(index, is_meant);
  if (found == index.end()) return newest_that_fits(from, source, name, index, options);
  if (std::ranges::count_if(index, is_meant) == 1) {
    TRY_ASSIGN(Listed listed, catalogue::read_listed(from, found->id));
    if (auto checked = check_listed(listed, options); !checked) return std::move(checked).error();
    return listed;
  }
  return Error{ErrorCode::kInvalidArgument,
               source + ": expected one snapshot whose id begins with " + name + ", found several",
               "name"};
}

}  // namespace

Result<SnapshotInfo> pull_snapshot(const std::string& name, const std::string& source,
                                   const SnapshotOptions& options) {
  TRY_ASSIGN(const Store store, open_store(options.engine.weights.store));
  TRY_ASSIGN(const auto changes,
             Snapshots(store).change(Sharing::kShared, wait_of(options.engine.progress)));
  TRY_ASSIGN(const auto from, catalogue::open_source(source));
  TRY_ASSIGN(const Listed listed, find_listed(*from, source, name, options));
  const int64_t num_bytes = catalogue::missing_bytes(store, listed.manifest);
  auto fetched = catalogue::fetch_snapshot(
      store, *from, listed,
      {progress_of(options, "pulling", num_bytes), wait_of(options.engine.progress)});
  if (!fetched) return std::move(fetched).error();
  return info_of(listed.manifest, !listed.signature.empty());
}

Result<SnapshotInfo> push_snapshot(const std::string& id, const std::string& target,
                                   const SnapshotOptions& options) {
  if (catalogue::is_url(target)) {
    return Error{ErrorCode::kUnsupported,
                 target +
                     ": expected a folder to push into, which a server of files can hand out; "
                     "found the address of a server",
                 "target"};
  }
  TRY_ASSIGN(const Store store, open_store(options.engine.weights.store));
  TRY_ASSIGN(const HeldSnapshot held, hold_snapshot(store, id));
  if (auto can = snapshot::check_can_travel(held.manifest); !can) return std::move(can).error();
  if (auto made = catalogue::make_catalogue(target); !made) return std::move(made).error();
  TRY_ASSIGN(const Store to, Store::open(target));
  TRY_ASSIGN(const auto changes,
             Snapshots(to).change(Sharing::kShared, wait_of(options.engine.progress)));
  TRY_ASSIGN(const auto from, catalogue::open_source(store.dir()));
  const int64_t num_bytes = catalogue::missing_bytes(to, held.manifest);
  auto done = catalogue::fetch_snapshot(
      to, *from, {held.manifest, held.signature},
      {progress_of(options, "pushing", num_bytes), wait_of(options.engine.progress)});
  if (done) done = catalogue::list_snapshot(to, held.manifest);
  if (!done) return std::move(done).error();
  return info_of(held.manifest, !held.signature.empty());
}

}  // namespace stoker
