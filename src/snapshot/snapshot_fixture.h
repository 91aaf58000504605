// What the tests of manifests and snapshots share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "snapshot/manifest.h"
#include "snapshot/store_fixture.h"

namespace stoker::snapshot {

/// A section that no store has.
inline Section made_section(const std::string& kind, int64_t bytes) {
  Section section;
  section.kind = kind;
  section.bytes = bytes;
  section.digest = digest_of("object of " + kind);
  section.table_digest = digest_of("table of " + kind);
  section.key = digest_of("key of " + kind);
  return section;
}

inline Manifest made_manifest(const std::string& model, std::vector<Section> sections) {
  Manifest m;
  m.created = "2026-01-31T12:00:00Z";
  m.tool = "stoker 1.2.3";
  m.engine_build = "1.2.3";
  m.engine_layout = 1;
  m.engine_numeric = "reference-1";
  m.model_name = model;
  m.model_fingerprint = digest_of("fingerprint");
  m.model_digest = digest_of("answers");
  m.host_isa = "x86-avx2";
  m.host_cpu = "A processor";
  m.host_cores = 2;
  m.sections = std::move(sections);
  return m;
}

/// Snapshots over a store with small objects.
class SnapshotsTest : public StoreTest {
 protected:
  /// A small object with this content, which is also its key.
  static Section put_part(const Store& store, const std::string& kind, const std::string& text) {
    auto section = store.put_text(kind, digest_of(text), text);
    EXPECT_TRUE(section) << section.error().message;
    return section ? *section : Section{};
  }

  std::filesystem::path snapshots_dir() const { return dir_ / "store" / "snapshots"; }
  std::filesystem::path use_dir() const { return dir_ / "store" / "use"; }
};

}  // namespace stoker::snapshot
