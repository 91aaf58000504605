// What differs between two snapshots, as their manifests tell it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "snapshot/manifest.h"

namespace stoker::snapshot {

/// A line of a manifest that says something else in the other; "" where it has none.
struct FieldDiff {
  std::string name;  ///< as in the manifest, "engine.build"
  std::string in_a;
  std::string in_b;

  bool operator==(const FieldDiff&) const = default;
};

/// The section of a kind; at least one of the two is there.
struct SectionDiff {
  std::string kind;
  std::optional<Section> in_a;
  std::optional<Section> in_b;

  /// Both name the same object.
  bool is_shared() const { return in_a && in_b && in_a->object() == in_b->object(); }
};

struct ManifestDiff {
  std::vector<FieldDiff> fields;      ///< those that differ, in the order of the manifest
  std::vector<SectionDiff> sections;  ///< all, by kind
  int64_t bytes_shared = 0;
  int64_t bytes_only_a = 0;
  int64_t bytes_only_b = 0;
};

ManifestDiff diff_manifests(const Manifest& a, const Manifest& b);

}  // namespace stoker::snapshot
