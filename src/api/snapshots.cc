#include "api/snapshots.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "api/fingerprint.h"
#include "api/loaded_model.h"
#include "api/plans.h"
#include "api/receipt.h"
#include "api/snapshot_parts.h"
#include "base/machine.h"
#include "base/try.h"
#include "model/packed_weights.h"

namespace stoker {
namespace {

using snapshot::Digest;
using snapshot::Manifest;
using snapshot::Snapshots;
using snapshot::Store;

// Without them an engine comes up all the same.
constexpr std::string_view kMayBeMissing[] = {kPlansPart, kPrefixPart};

// What a name means, beside the beginning of an id.
struct Wanted {
  std::string name;
  std::optional<Digest> fingerprint;  // of a checkpoint's directory
};

Result<Wanted> wanted_of(const Store& store, const std::string& name,
                         const EngineOptions& options) {
  Wanted wanted{name, std::nullopt};
  const auto path = resolve_model(name);
  if (name.empty() || !path) return wanted;
  TRY_ASSIGN(Checkpoint checkpoint, Checkpoint::open_headers(*path));
  TRY_ASSIGN(const int num_threads, threads_to_use(options.num_threads));
  TRY_ASSIGN(wanted.fingerprint, fingerprint_of(checkpoint, store, num_threads, options.progress));
  return wanted;
}

std::string expected_found(const std::string& what, const std::string& expected,
                           const std::string& found) {
  return what + ": expected " + expected + ", found " + found;
}

std::string flags_text(const std::vector<snapshot::ManifestFlag>& flags) {
  std::string text;
  for (const auto& [name, value] : flags) {
    if (!text.empty()) text += ' ';
    text.append(name).append("=").append(value);
  }
  return text;
}

const char* numeric_mode_of(const EngineOptions& options) {
  return options.bounded_replay == BoundedReplay::kCompact ? kCompactMode : kReferenceMode;
}

// What must be in memory; tables are read row by row.
int64_t memory_need(const Manifest& m) {
  const auto bytes_of_part = [&m](const char* part) {
    const snapshot::Section* const section = m.find(part);
    return section != nullptr ? section->bytes : 0;
  };
  return bytes_of_part(kWeightsPart) + bytes_of_part(kTensorsPart);
}

bool has_plans_of_here(const Manifest& m, const EngineOptions& options) {
  const auto num_threads = threads_to_use(options.num_threads);
  const snapshot::Section* const plans = m.find(kPlansPart);
  return num_threads && plans != nullptr && plans->key == plans_key(*num_threads);
}

class Finder {
 public:
  Finder(const Store& store, const EngineOptions& options) : snapshots_(store), options_(options) {}

  Candidate judge(const Digest& id, const Wanted& wanted) const {
    Candidate candidate{id, std::nullopt, {}};
    candidate.told.info.id = id.hex();
    auto manifest = snapshots_.read(id);
    if (!manifest) {
      candidate.told.passed_over = unreadable(manifest.error());
      return candidate;
    }
    const auto signature = snapshots_.signature(id);
    candidate.told.info = info_of(*manifest, signature && !signature->empty());
    candidate.told.has_plans = has_plans_of_here(*manifest, options_);
    candidate.told.passed_over = why_not(*manifest, wanted);
    candidate.manifest = *std::move(manifest);
    return candidate;
  }

 private:
  // A manifest of another version does not fit; all else that cannot be read is damage.
  static Error unreadable(const Error& error) {
    const bool is_other = error.code == ErrorCode::kUnsupported;
    return {is_other ? ErrorCode::kNotFound : ErrorCode::kCorruptData, error.message, ""};
  }

  std::optional<Error> why_not(const Manifest& m, const Wanted& wanted) const {
    if (wanted.fingerprint && m.model_fingerprint != *wanted.fingerprint) {
      return Error{ErrorCode::kNotFound,
                   expected_found("weights of " + wanted.name, wanted.fingerprint->hex(),
                                  m.model_fingerprint.hex()),
                   ""};
    }
    if (std::string why = misfit(m, options_); !why.empty())
      return Error{ErrorCode::kNotFound, why, ""};
    if (auto missing = snapshots_.missing_part(m, kMayBeMissing)) return std::move(missing->why);
    const int64_t usable = usable_memory_bytes();
    if (memory_need(m) <= usable) return std::nullopt;
    return Error{
        ErrorCode::kResourceExhausted,
        expected_found("memory", std::to_string(memory_need(m)) + " bytes", std::to_string(usable)),
        ""};
  }

  const Snapshots snapshots_;
  const EngineOptions& options_;
};

// Whether a name that is no directory means this one; one that cannot be read may be meant.
bool is_meant(const Candidate& candidate, const Wanted& wanted) {
  if (wanted.name.empty() || wanted.fingerprint || !candidate.manifest) return true;
  return candidate.manifest->model_name == wanted.name;
}

auto rank_of(const Candidate& candidate) {
  const bool fits = !candidate.told.passed_over;
  const std::string build = candidate.manifest ? candidate.manifest->engine_build : "";
  const std::string created = candidate.manifest ? candidate.manifest->created : "";
  return std::tuple(fits, candidate.told.has_plans, build, created, candidate.id.bytes);
}

}  // namespace

std::vector<snapshot::ManifestFlag> manifest_flags(bool is_compact) {
  return {{"bounded_replay", is_compact ? "compact" : "exact"}};
}

std::string misfit(const Manifest& m, const EngineOptions& options) {
  if (m.engine_layout != kPackedVersion) {
    return expected_found("layout of packed weights", std::to_string(kPackedVersion),
                          std::to_string(m.engine_layout));
  }
  const auto flags = manifest_flags(options.bounded_replay == BoundedReplay::kCompact);
  if (m.flags != flags) return expected_found("options", flags_text(flags), flags_text(m.flags));
  if (m.engine_numeric != numeric_mode_of(options))
    return expected_found("numeric mode", numeric_mode_of(options), m.engine_numeric);
  if (m.host_isa != kHostIsa)
    return expected_found("instructions of this build and host", kHostIsa, m.host_isa);
  if (m.ranks != 1) return expected_found("ranks", "1", std::to_string(m.ranks));
  for (const char* part : {kWeightsPart, kPackedPart, kTensorsPart, kConfigPart, kCanaryPart}) {
    if (m.find(part) == nullptr) return expected_found("sections", part, "none of this name");
  }
  return {};
}

SnapshotInfo info_of(const Manifest& m, bool is_signed) {
  SnapshotInfo info{m.id().hex(),
                    m.model_name,
                    m.created,
                    m.tool,
                    m.model_digest.hex(),
                    m.engine_numeric,
                    m.host_isa,
                    m.host_cpu,
                    m.bytes(),
                    is_signed,
                    {}};
  for (const snapshot::Section& section : m.sections)
    info.parts.push_back({section.kind, section.object(), section.bytes});
  return info;
}

Result<std::vector<Candidate>> find_candidates(const Store& store, const std::string& name,
                                               const EngineOptions& options) {
  const Snapshots snapshots(store);
  const Finder finder(store, options);
  TRY_ASSIGN(std::vector<Digest> ids, snapshots.ids());
  std::vector<Candidate> out;
  if (const auto id = snapshots.id_of(name)) {
    out.push_back(finder.judge(*id, {}));
    return out;
  }
  TRY_ASSIGN(const Wanted wanted, wanted_of(store, name, options));
  for (const Digest& id : ids) {
    Candidate candidate = finder.judge(id, wanted);
    if (is_meant(candidate, wanted)) out.push_back(std::move(candidate));
  }
  std::ranges::sort(out,
                    [](const Candidate& a, const Candidate& b) { return rank_of(a) > rank_of(b); });
  return out;
}

Result<std::vector<SnapshotCandidate>> list_snapshots(const std::string& name,
                                                      const SnapshotOptions& options) {
  TRY_ASSIGN(const Store store, open_store(options.engine.weights.store));
  TRY_ASSIGN(std::vector<Candidate> found, find_candidates(store, name, options.engine));
  if (auto checked = pass_over_unsigned(store, options, found); !checked)
    return std::move(checked).error();
  std::vector<SnapshotCandidate> out;
  out.reserve(found.size());
  for (Candidate& candidate : found) out.push_back(std::move(candidate.told));
  return out;
}

}  // namespace stoker
