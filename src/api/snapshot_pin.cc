// Keeping the large objects of a snapshot in memory, for engines that start and end.
#include <utility>

#include "api/loaded_model.h"
#include "api/snapshot_parts.h"
#include "api/snapshot_travel.h"
#include "base/try.h"
#include "snapshot/pin.h"
#include "stoker/snapshot.h"

namespace stoker {
namespace {

// Tables are read row by row, and often larger than memory.
std::vector<snapshot::Section> pinned_sections(const snapshot::Manifest& manifest) {
  std::vector<snapshot::Section> sections;
  for (const char* part : {kWeightsPart, kTensorsPart}) {
    if (const snapshot::Section* const section = manifest.find(part)) sections.push_back(*section);
  }
  return sections;
}

PinnedSnapshot told(const std::string& id, const snapshot::Pinned& pinned) {
  PinnedSnapshot out;
  out.id = id;
  out.num_bytes = pinned.bytes();
  for (const snapshot::Attached& attached : pinned.objects()) {
    if (!attached.report.why.empty()) out.notes.push_back(attached.report.why);
  }
  return out;
}

}  // namespace

Result<void> pin_snapshot(const std::string& id, bool sealed, const SnapshotOptions& options,
                          const std::function<void(const PinnedSnapshot& what)>& ready) {
  TRY_ASSIGN(const snapshot::Store store, open_store(options.engine.weights.store));
  TRY_ASSIGN(const LoadOptions load, load_options(options.engine));
  TRY_ASSIGN(const HeldSnapshot held, hold_snapshot(store, id));
  const std::vector<snapshot::Section> sections = pinned_sections(held.manifest);
  const auto progress = [&](double fraction) {
    if (load.progress) load.progress({"pinning", fraction, 0});
  };
  TRY_ASSIGN(const snapshot::Pinned pinned,
             sealed ? snapshot::pin_sealed(store, sections, load.num_threads, progress)
                    : snapshot::pin_objects(store, sections, load.num_threads, progress));
  // Until now a signal ended the process, which is as good.
  TRY_ASSIGN(const Descriptor stop, snapshot::termination_signals());
  ready(told(held.manifest.id().hex(), pinned));
  return pinned.wait(stop.get());
}

}  // namespace stoker
