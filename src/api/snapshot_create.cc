// Making a snapshot of a checkpoint: its parts, the plans of this machine, a canary, then the
// manifest.
#include <utility>

#include "api/snapshot_make.h"
#include "api/snapshot_travel.h"
#include "api/snapshots.h"
#include "base/try.h"
#include "catalogue/signature.h"

namespace stoker {
namespace {

using snapshot::Manifest;
using snapshot::Section;
using snapshot::Store;

Error not_stored(const Store& store) {
  return {ErrorCode::kIo,
          store.dir() +
              ": expected packed weights in the store, found no way to "
              "keep them there (see the log)",
          ""};
}

// Of an engine that is there for that alone.
Result<Section> ask_new_canary(const Store& store, std::shared_ptr<LoadedModel> loaded,
                               const SnapshotOptions& options) {
  const LoadedModel& model = *loaded;
  TRY_ASSIGN(const auto engine, start_engine(std::move(loaded), options.engine));
  if (options.engine.progress) options.engine.progress({"asking the canary"});
  return put_canary(store, model, *engine, options.canary_limit);
}

// The signature that was asked for, over a manifest with the SHA-256 of each section; "" for none.
Result<std::string> sign(const Store& store, Manifest& manifest, const SnapshotOptions& options,
                         int num_threads) {
  if (options.sign_key.empty()) return std::string();
  auto added = catalogue::add_sha256(store, manifest, num_threads,
                                     progress_of(options, "signing", manifest.bytes()));
  if (!added) return std::move(added).error();
  return catalogue::sign_text(options.sign_key, manifest_text(manifest));
}

}  // namespace

Result<SnapshotInfo> create_snapshot(const std::string& model, const SnapshotOptions& options) {
  SnapshotOptions how = options;
  how.engine.weights.pack = true;
  if (!how.sign_key.empty()) {  // a key that cannot be used is told before the work
    TRY_ASSIGN([[maybe_unused]] const std::string tried, catalogue::sign_text(how.sign_key, ""));
  }
  how.engine.weights.verify = Verify::kFull;  // what is named in a manifest was read whole
  TRY_ASSIGN(const Store store, open_store(how.engine.weights.store));
  how.engine.weights.store = store.dir();
  const snapshot::Snapshots snapshots(store);
  const auto changes = snapshots.change(snapshot::Sharing::kShared, wait_of(how.engine.progress));
  if (!changes) return changes.error();
  TRY_ASSIGN(const LoadOptions load, load_options(how.engine));
  TRY_ASSIGN(const std::shared_ptr<LoadedModel> loaded, LoadedModel::load(model, load));
  if (loaded->stored() == nullptr) return not_stored(store);
  TRY_ASSIGN(Section canary, ask_new_canary(store, loaded, how));
  const StoreWork work{load.weights.verify, load.num_threads, load.log, load.progress};
  TRY_ASSIGN(std::vector<Section> sections, put_sections(store, *loaded, work));
  sections.push_back(std::move(canary));
  Manifest manifest = manifest_of(*loaded, how.name, std::move(sections));
  TRY_ASSIGN(const std::string signature, sign(store, manifest, how, load.num_threads));
  if (auto published = snapshots.publish(manifest, signature); !published)
    return std::move(published).error();
  return info_of(manifest, !signature.empty());
}

}  // namespace stoker
