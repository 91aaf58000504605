// What those share that take snapshots out of a store and into it.
#pragma once

#include <optional>
#include <string>

#include "snapshot/chunk_table.h"
#include "snapshot/snapshots.h"
#include "stoker/snapshot.h"

namespace stoker {

/// Tells the sink of the options of a phase that handles so many bytes; null where there is none.
snapshot::Progress progress_of(const SnapshotOptions& options, const std::string& phase,
                               int64_t num_bytes);

/// A snapshot of a store that stays while this is held.
struct HeldSnapshot {
  snapshot::Manifest manifest;
  std::string signature;                    ///< "" : none
  std::optional<snapshot::UseLock> in_use;  ///< none where the store cannot be written
};

/// `id`: the beginning of it. Errors: those of Snapshots.
Result<HeldSnapshot> hold_snapshot(const snapshot::Store& store, const std::string& id);

}  // namespace stoker
