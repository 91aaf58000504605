// Making a snapshot: the parts of a model, the plans of this machine, a canary, then the manifest.
#include <algorithm>
#include <ctime>
#include <utility>

#include "api/canary.h"
#include "api/loaded_model.h"
#include "api/plans.h"
#include "api/snapshot_parts.h"
#include "api/snapshot_travel.h"
#include "api/snapshots.h"
#include "base/machine.h"
#include "base/try.h"
#include "catalogue/signature.h"
#include "model/packed_weights.h"
#include "stoker/version.h"

namespace stoker {
namespace {

using snapshot::Manifest;
using snapshot::Section;
using snapshot::Store;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Error not_stored(const Store& store) {
  return {ErrorCode::kIo,
          store.dir() +
              ": expected packed weights in the store, found no way to "
              "keep them there (see the log)",
          ""};
}

// With the sections of a model that is loaded from `store`.
Result<std::vector<Section>> put_sections(const Store& store, const LoadedModel& loaded,
                                          const LoadOptions& how) {
  const StoreWork work{how.weights.verify, how.num_threads, how.log, how.progress};
  TRY_ASSIGN(
      std::vector<Section> sections,
      put_model_parts(store, loaded.checkpoint(), loaded.weights(), loaded.fingerprint(), work));
  sections.push_back(loaded.stored()->objects.front().section());
  if (const auto plan = find_plan(store, how.num_threads)) sections.push_back(plan->section);
  return sections;
}

Result<Section> put_canary(const Store& store, std::shared_ptr<LoadedModel> loaded,
                           const SnapshotOptions& options) {
  const int32_t window = loaded->checkpoint().config().sliding_window;
  const int32_t vocab_size = loaded->info().vocab_size;
  TRY_ASSIGN(const auto engine, start_engine(std::move(loaded), options.engine));
  if (options.engine.progress) options.engine.progress({"asking the canary"});
  TRY_ASSIGN(const Canary canary, make_canary(*engine, window, options.canary_limit));
  if (auto same = check_canary(*engine, canary, options.canary_limit); !same)
    return std::move(same).error();
  const std::string text = canary_text(canary);
  TRY_ASSIGN([[maybe_unused]] const Canary read, parse_canary(text, vocab_size));
  return store.put_text(kCanaryPart, snapshot::digest_of(text), text);
}

Manifest manifest_of(const LoadedModel& loaded, const SnapshotOptions& options,
                     std::vector<Section> sections) {
  const HardwareFacts facts = hardware_facts();
  Manifest m;
  m.created = utc_now();
  m.tool = std::string("stoker ") + version();
  m.engine_build = version();
  m.engine_layout = kPackedVersion;
  m.engine_numeric = loaded.info().numeric_mode;
  m.model_name = options.name.empty() ? loaded.info().name : options.name;
  m.model_fingerprint = loaded.fingerprint();
  m.model_digest = *snapshot::Digest::from_hex(loaded.info().digest);
  m.flags = manifest_flags(options.engine);
  m.host_isa = kHostIsa;
  m.host_cpu = facts.processor;
  m.host_cores = facts.num_cores;
  m.host_numa = facts.num_numa_nodes;
  m.host_page = facts.page_bytes;
  std::ranges::sort(sections, {}, &Section::kind);
  m.sections = std::move(sections);
  return m;
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
  TRY_ASSIGN(Section canary, put_canary(store, loaded, how));
  TRY_ASSIGN(std::vector<Section> sections, put_sections(store, *loaded, load));
  sections.push_back(std::move(canary));
  Manifest manifest = manifest_of(*loaded, how, std::move(sections));
  TRY_ASSIGN(const std::string signature, sign(store, manifest, how, load.num_threads));
  if (auto published = snapshots.publish(manifest, signature); !published)
    return std::move(published).error();
  return info_of(manifest, !signature.empty());
}

}  // namespace stoker
