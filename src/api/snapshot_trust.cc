// Whose snapshots an engine may come up from.
#include <algorithm>
#include <utility>

#include "api/loaded_model.h"
#include "api/snapshot_travel.h"
#include "api/snapshots.h"
#include "base/try.h"
#include "catalogue/signature.h"

namespace stoker {

using snapshot::Manifest;
using snapshot::Store;

Result<void> check_signed(const Store& store, const Manifest& manifest,
                          const SnapshotOptions& options) {
  if (options.require_signature.empty()) return {};
  TRY_ASSIGN(const std::string signature, snapshot::Snapshots(store).signature(manifest.id()));
  return catalogue::check_signature(options.require_signature, manifest_text(manifest), signature);
}

Result<void> verify_signed(const Store& store, const Manifest& manifest,
                           const SnapshotOptions& options) {
  if (options.require_signature.empty()) return {};
  if (auto checked = check_signed(store, manifest, options); !checked) return checked;
  TRY_ASSIGN(const int num_threads, threads_to_use(options.engine.num_threads));
  return catalogue::verify_sha256(store, manifest, num_threads,
                                  progress_of(options, "verifying SHA-256", manifest.bytes()));
}

Result<void> pass_over_unsigned(const Store& store, const SnapshotOptions& options,
                                std::vector<Candidate>& candidates) {
  if (options.require_signature.empty()) return {};
  // What is wrong with the key is not for each snapshot to say.
  auto key = catalogue::check_public_key(options.require_signature);
  if (!key) return key;
  for (Candidate& candidate : candidates) {
    if (candidate.told.passed_over) continue;
    auto checked = check_signed(store, *candidate.manifest, options);
    if (!checked) candidate.told.passed_over = std::move(checked).error();
  }
  // clang 14 has no std::ranges::stable_partition over libstdc++'s ranges.
  std::stable_partition(candidates.begin(), candidates.end(),
                        [](const Candidate& candidate) { return !candidate.told.passed_over; });
  return {};
}

}  // namespace stoker
