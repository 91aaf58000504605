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

/// What is recorded of the options that change numbers. `is_compact`: BoundedReplay::kCompact.
std::vector<snapshot::ManifestFlag> manifest_flags(bool is_compact);

/// Why an engine of this build, this host and these options cannot be the one that was saved; ""
/// if it can. Objects and memory are not looked at.
std::string misfit(const snapshot::Manifest& manifest, const EngineOptions& options);

SnapshotInfo info_of(const snapshot::Manifest& manifest, bool is_signed);

/// A manifest in the store, or why it cannot be read.
struct Candidate {
  snapshot::Digest id;
  std::optional<snapshot::Manifest> manifest;
  SnapshotCandidate told;
};

/// Whether a snapshot has the signature that the options ask for; any will do where they ask for
/// none. Errors: those of catalogue::check_signature.
Result<void> check_signed(const snapshot::Store& store, const snapshot::Manifest& manifest,
                          const SnapshotOptions& options);
/// The same, and then every byte is held against the SHA-256 of the manifest. Error also:
/// kCorruptData.
Result<void> verify_signed(const snapshot::Store& store, const snapshot::Manifest& manifest,
                           const SnapshotOptions& options);
/// Passes over the candidates that fit and have no such signature. Errors: those of the key.
Result<void> pass_over_unsigned(const snapshot::Store& store, const SnapshotOptions& options,
                                std::vector<Candidate>& candidates);

/// What keeps a snapshot from being collected while an engine runs from it, taken before its
/// manifest is looked for; none where the store cannot be written, for then nobody collects.
/// Errors: those of Snapshots::use and read.
Result<std::optional<snapshot::UseLock>> lock_in_use(const snapshot::Store& store,
                                                     const snapshot::Digest& id);

/// The best first. Errors: kIo; what is wrong with one snapshot is told of it.
Result<std::vector<Candidate>> find_candidates(const snapshot::Store& store,
                                               const std::string& name,
                                               const EngineOptions& options);

}  // namespace stoker
