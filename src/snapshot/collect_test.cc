#include "snapshot/collect.h"

#include "snapshot/snapshot_fixture.h"

namespace stoker::snapshot {
namespace {

class CollectTest : public SnapshotsTest {
 protected:
  /// A snapshot with an object of its own and one that it shares with all others.
  Manifest publish_one(const Store& store, const std::string& created,
                       const std::string& text) const {
    Manifest manifest = made_manifest(
        "m", {put_part(store, "config", text), put_part(store, "weights", "shared by all")});
    manifest.created = created;
    EXPECT_TRUE(Snapshots(store).publish(manifest));
    return manifest;
  }
};

TEST_F(CollectTest, KeepsTheNewestOfEachModelAndClass) {
  const Store store = open_store();
  const Snapshots snapshots(store);
  const Manifest oldest = publish_one(store, "2026-01-01T00:00:00Z", "1");
  const Manifest middle = publish_one(store, "2026-01-02T00:00:00Z", "2");
  const Manifest newest = publish_one(store, "2026-01-03T00:00:00Z", "3");
  Manifest other = oldest;
  other.host_isa = "x86-amx";
  ASSERT_TRUE(snapshots.publish(other));

  const auto would = collect(store, {.keep = 1, .dry_run = true});
  ASSERT_TRUE(would) << would.error().message;
  EXPECT_EQ(would->snapshots.size(), 2);
  EXPECT_EQ(snapshots.ids()->size(), 4);

  const auto done = collect(store, {.keep = 1});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->snapshots, would->snapshots);
  EXPECT_EQ(done->objects, would->objects);
  EXPECT_EQ(done->objects.size(), 1);  // of the middle one: `other` has that of the oldest
  EXPECT_TRUE(snapshots.read(newest.id()));
  EXPECT_TRUE(snapshots.read(other.id()));
  EXPECT_FALSE(snapshots.missing_part(newest));
  EXPECT_FALSE(snapshots.missing_part(other));
  EXPECT_TRUE(snapshots.missing_part(middle));
  EXPECT_FALSE(store.find("config", digest_of("2")).section);
}

TEST_F(CollectTest, TakesObjectsOfNoSnapshotAndTheirKeys) {
  const Store store = open_store();
  put_part(store, "weights", "of nobody");
  const Section kept = put_part(store, "session", "a conversation");
  put_part(store, "plans", "a plan");
  const auto done = collect(store, {});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->objects.size(), 1);
  EXPECT_EQ(names_in(objects()).size(), 4);  // two objects with their tables
  EXPECT_EQ(names_in(keys()).size(), 2);
  EXPECT_TRUE(store.map(kept));
}

TEST_F(CollectTest, LeavesWhatAnEngineRunsFrom) {
  const Store store = open_store();
  const Snapshots snapshots(store);
  const Manifest old = publish_one(store, "2026-01-01T00:00:00Z", "1");
  publish_one(store, "2026-01-02T00:00:00Z", "2");
  {
    const auto engine = snapshots.use(old.id(), Sharing::kShared);
    ASSERT_TRUE(engine);
    EXPECT_TRUE(collect(store, {})->snapshots.empty());
  }
  EXPECT_EQ(collect(store, {})->snapshots, std::vector{old.id()});
  EXPECT_EQ(names_in(use_dir()), (std::vector<std::string>{"changes"}));
}

TEST_F(CollectTest, StopsWhereTheStoreIsSmallEnough) {
  const Store store = open_store();
  const Snapshots snapshots(store);
  const Manifest old = publish_one(store, "2026-01-01T00:00:00Z", std::string(5000, 'a'));
  publish_one(store, "2026-01-02T00:00:00Z", std::string(5000, 'b'));
  put_part(store, "weights", std::string(5000, 'c'));
  const auto nothing = collect(store, {.keep = 1, .max_bytes = 1 << 20});
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->objects.empty());
  const auto one = collect(store, {.keep = 1, .max_bytes = 11'000});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->objects.size(), 1);  // that of no snapshot first
  EXPECT_TRUE(one->snapshots.empty());
  EXPECT_LE(one->bytes_left, 11'000);
  EXPECT_EQ(collect(store, {.keep = 1, .max_bytes = 7000})->snapshots, std::vector{old.id()});
}

TEST_F(CollectTest, ADamagedManifestGoesAndOneOfAnotherVersionStopsIt) {
  const Store store = open_store();
  const Manifest manifest = publish_one(store, "2026-01-01T00:00:00Z", "1");
  const auto path = snapshots_dir() / (digest_of("x").hex() + ".manifest");
  std::ofstream(path) << "nonsense";
  const auto done = collect(store, {});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->damaged.size(), 1);
  EXPECT_FALSE(std::filesystem::exists(path));

  std::string later = manifest_text(manifest);
  later.replace(0, 8, "format=2");
  later.erase(later.rfind("end="));
  std::ofstream(path) << later << "end=" << digest_of(later).hex() << "\n";
  EXPECT_EQ(collect(store, {.keep = 0}).error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(Snapshots(store).missing_part(manifest));
}

TEST_F(CollectTest, IsBusyWhileASnapshotIsMade) {
  const Store store = open_store();
  const auto making = Snapshots(store).change(Sharing::kShared);
  ASSERT_TRUE(making);
  EXPECT_EQ(collect(store, {}).error().code, ErrorCode::kOverloaded);
  EXPECT_EQ(collect(store, {.keep = -1}).error().field, "keep");
}

}  // namespace
}  // namespace stoker::snapshot
