// The bytes of a running engine are in the store already: what is made here is the canary, the
// manifest, and the object of cached prefixes. Whatever the manifest names is read whole before.
#include "api/snapshot_save.h"

#include <algorithm>
#include <utility>

#include "api/kept_prefixes.h"
#include "api/plans.h"
#include "api/snapshot_make.h"
#include "api/snapshot_parts.h"
#include "api/snapshots.h"
#include "base/try.h"
#include "snapshot/snapshots.h"

namespace stoker {
namespace {

using snapshot::Manifest;
using snapshot::Section;
using snapshot::Store;

Error no_store() {
  return {ErrorCode::kUnsupported,
          "expected packed weights in a store, found weights that this process has packed in its "
          "memory: start it without --no-pack, and with a store that can be written",
          ""};
}

// What a manifest would refuse is told before the work.
Result<void> check_wanted(const LoadedModel& loaded, const SaveSnapshot& what) {
  if (what.max_prefixes < 0 || what.max_prefixes > kMaxSavedPrefixes) {
    return Error{ErrorCode::kInvalidArgument,
                 "prefixes: expected 0 to " + std::to_string(kMaxSavedPrefixes) + ", found " +
                     std::to_string(what.max_prefixes),
                 "prefixes"};
  }
  const Section weights = loaded.stored()->objects.front().section();
  auto checked = check_manifest(manifest_of(loaded, what.name, {weights}));
  if (checked) return {};
  return Error{ErrorCode::kInvalidArgument, "name: " + checked.error().message, "name"};
}

// Is it of the model, and not of the host or of what users wrote.
bool is_of_model(const Section& section) {
  return section.kind != kPlansPart && section.kind != kCanaryPart && section.kind != kPrefixPart;
}

// Those of the snapshot that the engine came up from.
Result<std::vector<Section>> sections_by_reference(const Store& store, const Manifest& manifest,
                                                   const StoreWork& work) {
  std::vector<Section> sections;
  std::ranges::copy_if(manifest.sections, std::back_inserter(sections), is_of_model);
  for (const Section& section : sections) {
    if (auto good = verify_section(store, section, work); !good) return std::move(good).error();
  }
  if (const auto plan = find_plan(store, work.num_threads)) sections.push_back(plan->section);
  return sections;
}

Result<std::vector<Section>> sections_of(const Store& store, const LoadedModel& loaded,
                                         const StoreWork& work) {
  if (loaded.manifest() != nullptr) return sections_by_reference(store, *loaded.manifest(), work);
  auto good = verify_section(store, loaded.stored()->objects.front().section(), work);
  if (!good) return std::move(good).error();
  return put_sections(store, loaded, work);
}

}  // namespace

Result<SavedSnapshot> save_running(Engine& engine, const LoadedModel& loaded, int num_threads,
                                   const SaveSnapshot& what) {
  if (loaded.stored() == nullptr) return no_store();
  if (auto checked = check_wanted(loaded, what); !checked) return std::move(checked).error();
  const Store& store = *loaded.stored()->store;
  const snapshot::Snapshots snapshots(store);
  TRY_ASSIGN(const auto changes, snapshots.change(snapshot::Sharing::kShared));
  std::vector<KeptPrefix> kept;  // first: later some may have gone
  if (what.max_prefixes > 0) {
    TRY_ASSIGN(kept, take_prefixes(engine, what.max_prefixes));
  }
  TRY_ASSIGN(Section canary, put_canary(store, loaded, engine, what.canary_limit));
  const StoreWork work{Verify::kFull, num_threads, {}, {}, what.is_cancelled};
  TRY_ASSIGN(std::vector<Section> sections, sections_of(store, loaded, work));
  sections.push_back(std::move(canary));
  if (!kept.empty()) {
    TRY_ASSIGN(Section prefixes, put_prefixes(store, kept));
    sections.push_back(std::move(prefixes));
  }
  const Manifest manifest = manifest_of(loaded, what.name, std::move(sections));
  if (auto published = snapshots.publish(manifest); !published) return std::move(published).error();
  SavedSnapshot saved{info_of(manifest, false), static_cast<int>(kept.size()), 0};
  for (const KeptPrefix& prefix : kept) saved.num_prefix_tokens += prefix.num_tokens;
  return saved;
}

}  // namespace stoker
