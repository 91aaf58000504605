#include "api/snapshot_make.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "api/canary.h"
#include "api/plans.h"
#include "api/snapshot_parts.h"
#include "api/snapshots.h"
#include "base/machine.h"
#include "base/try.h"
#include "model/packed_weights.h"
#include "stoker/version.h"

namespace stoker {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

Result<snapshot::Section> put_canary(const snapshot::Store& store, const LoadedModel& loaded,
                                     Engine& engine, std::chrono::milliseconds limit) {
  const int32_t window = loaded.checkpoint().config().sliding_window;
  TRY_ASSIGN(const Canary canary, make_canary(engine, window, limit));
  if (auto same = check_canary(engine, canary, limit); !same) return std::move(same).error();
  const std::string text = canary_text(canary);
  TRY_ASSIGN([[maybe_unused]] const Canary read, parse_canary(text, loaded.info().vocab_size));
  return store.put_text(kCanaryPart, snapshot::digest_of(text), text);
}

Result<std::vector<snapshot::Section>> put_sections(const snapshot::Store& store,
                                                    const LoadedModel& loaded,
                                                    const StoreWork& work) {
  TRY_ASSIGN(
      std::vector<snapshot::Section> sections,
      put_model_parts(store, loaded.checkpoint(), loaded.weights(), loaded.fingerprint(), work));
  sections.push_back(loaded.stored()->objects.front().section());
  if (const auto plan = find_plan(store, work.num_threads)) sections.push_back(plan->section);
  return sections;
}

snapshot::Manifest manifest_of(const LoadedModel& loaded, const std::string& name,
                               std::vector<snapshot::Section> sections) {
  const HardwareFacts facts = hardware_facts();
  snapshot::Manifest m;
  m.created = utc_now();
  m.tool = std::string("stoker ") + version();
  m.engine_build = version();
  m.engine_layout = kPackedVersion;
  m.engine_numeric = loaded.info().numeric_mode;
  m.model_name = name.empty() ? loaded.info().name : name;
  m.model_fingerprint = loaded.fingerprint();
  m.model_digest = *snapshot::Digest::from_hex(loaded.info().digest);
  m.flags = manifest_flags(loaded.model().replay().mode == ReplayMode::kCompact);
  m.host_isa = kHostIsa;
  m.host_cpu = facts.processor;
  m.host_cores = facts.num_cores;
  m.host_numa = facts.num_numa_nodes;
  m.host_page = facts.page_bytes;
  std::ranges::sort(sections, {}, &snapshot::Section::kind);
  m.sections = std::move(sections);
  return m;
}

}  // namespace stoker
