// Which snapshots of a store an engine can be brought up from, here and with these options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "snapshot/snapshots.h"
#include "stoker/snapshot.h"

namespace stoker {

/// The class of instructions that packed weights need.
inline constexpr const char* kHostIsa = "x86-avx2";

/// What is recorded of the options that change numbers.
std::vector<snapshot::ManifestFlag> manifest_flags(const EngineOptions& options);

SnapshotInfo info_of(const snapshot::Manifest& manifest, bool is_signed);

/// A manifest in the store, or why it cannot be read.
struct Candidate {
  snapshot::Digest id;
  std::optional<snapshot::Manifest> manifest;
  SnapshotCandidate told;
};

/// The best first. Errors: kIo; what is wrong with one snapshot is told of it.
Result<std::vector<Candidate>> find_candidates(const snapshot::Store& store,
                                               const std::string& name,
                                               const EngineOptions& options);

}  // namespace stoker
