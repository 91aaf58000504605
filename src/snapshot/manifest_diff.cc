#include "snapshot/manifest_diff.h"

#include <map>
#include <utility>

namespace stoker::snapshot {
namespace {

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

// The lines before the flags and behind them.
NamedTexts first_fields(const Manifest& m) {
  return {{"created", m.created},
          {"tool", m.tool},
          {"engine.build", m.engine_build},
          {"engine.layout", std::to_string(m.engine_layout)},
          {"engine.numeric", m.engine_numeric},
          {"model.name", m.model_name},
          {"model.fingerprint", m.model_fingerprint.hex()},
          {"model.digest", m.model_digest.hex()}};
}

NamedTexts last_fields(const Manifest& m) {
  return {{"host.isa", m.host_isa},
          {"host.cpu", m.host_cpu},
          {"host.cores", std::to_string(m.host_cores)},
          {"host.numa", std::to_string(m.host_numa)},
          {"host.page", std::to_string(m.host_page)},
          {"topology.ranks", std::to_string(m.ranks)}};
}

void add_fields(const NamedTexts& a, const NamedTexts& b, std::vector<FieldDiff>& out) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].second != b[i].second) out.push_back({a[i].first, a[i].second, b[i].second});
  }
}

void add_flags(const Manifest& a, const Manifest& b, std::vector<FieldDiff>& out) {
  std::map<std::string, std::pair<std::string, std::string>> flags;
  for (const ManifestFlag& flag : a.flags) flags[flag.name].first = flag.value;
  for (const ManifestFlag& flag : b.flags) flags[flag.name].second = flag.value;
  for (const auto& [name, values] : flags) {
    if (values.first != values.second)
      out.push_back({"config." + name, values.first, values.second});
  }
}

int64_t bytes_in(const std::optional<Section>& section) {
  return section ? section->bytes : 0;
}

}  // namespace

ManifestDiff diff_manifests(const Manifest& a, const Manifest& b) {
  ManifestDiff diff;
  add_fields(first_fields(a), first_fields(b), diff.fields);
  add_flags(a, b, diff.fields);
  add_fields(last_fields(a), last_fields(b), diff.fields);
  std::map<std::string, SectionDiff> kinds;
  for (const Section& section : a.sections) kinds[section.kind].in_a = section;
  for (const Section& section : b.sections) kinds[section.kind].in_b = section;
  for (auto& [kind, both] : kinds) {
    both.kind = kind;
    if (both.is_shared()) {
      diff.bytes_shared += both.in_a->bytes;
    } else {
      diff.bytes_only_a += bytes_in(both.in_a);
      diff.bytes_only_b += bytes_in(both.in_b);
    }
    diff.sections.push_back(std::move(both));
  }
  return diff;
}

}  // namespace stoker::snapshot
