// Taking away what no snapshot that is kept needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "snapshot/snapshots.h"

namespace stoker::snapshot {

/// What stays: of each model and class of instructions the newest `keep` snapshots, those that an
/// engine runs from, kept conversations, and the short notes of plans and fingerprints. All else
/// goes, the longest unused first, until the objects have at most `max_bytes` together.
struct CollectOptions {
  int keep = 1;           ///< at least 0
  int64_t max_bytes = 0;  ///< at least 0
  bool dry_run = false;   ///< tells what would go, and takes nothing
};

struct Collected {
  std::vector<Digest> snapshots;     ///< that went
  std::vector<std::string> damaged;  ///< manifests that nothing could be read from, which went too
  std::vector<std::string> objects;  ///< that went
  int64_t bytes = 0;                 ///< of these objects
  int64_t bytes_left = 0;            ///< of those that stayed
  int num_leftovers = 0;             ///< of work that was never finished
};

/// Errors: kOverloaded while another process makes a snapshot or collects, kUnsupported where a
/// manifest is of another version (its objects are not known), kIo.
Result<Collected> collect(const Store& store, const CollectOptions& options);

}  // namespace stoker::snapshot
