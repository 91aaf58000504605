#include "snapshot/manifest_diff.h"

#include "snapshot/snapshot_fixture.h"

namespace stoker::snapshot {
namespace {

TEST(ManifestDiff, OfTheSameSnapshotIsEmpty) {
  const Manifest m = made_manifest("m", {made_section("config", 10), made_section("weights", 100)});
  const ManifestDiff diff = diff_manifests(m, m);
  EXPECT_TRUE(diff.fields.empty());
  EXPECT_EQ(diff.sections.size(), 2U);
  EXPECT_EQ(diff.bytes_shared, 110);
  EXPECT_EQ(diff.bytes_only_a, 0);
  EXPECT_EQ(diff.bytes_only_b, 0);
}

TEST(ManifestDiff, NamesFieldsAndSections) {
  Section plans = made_section("plans", 7);
  Manifest a = made_manifest("m", {made_section("config", 10), plans});
  plans.digest = digest_of("measured again");
  plans.bytes = 9;
  Manifest b = made_manifest("m", {made_section("config", 10), plans, made_section("tables", 5)});
  a.flags = {{"alone", "1"}, {"max_len", "128"}};
  b.flags = {{"max_len", "256"}};
  b.host_cores = 4;
  b.created = "2026-02-01T12:00:00Z";
  const ManifestDiff diff = diff_manifests(a, b);
  const std::vector<FieldDiff> expected = {{"created", a.created, b.created},
                                           {"config.alone", "1", ""},
                                           {"config.max_len", "128", "256"},
                                           {"host.cores", "2", "4"}};
  EXPECT_EQ(diff.fields, expected);
  ASSERT_EQ(diff.sections.size(), 3U);
  EXPECT_TRUE(diff.sections[0].is_shared());
  EXPECT_FALSE(diff.sections[1].is_shared());
  EXPECT_FALSE(diff.sections[2].in_a);
  EXPECT_EQ(diff.bytes_shared, 10);
  EXPECT_EQ(diff.bytes_only_a, 7);
  EXPECT_EQ(diff.bytes_only_b, 14);
}

}  // namespace
}  // namespace stoker::snapshot
