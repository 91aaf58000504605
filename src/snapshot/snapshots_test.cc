#include "snapshot/snapshots.h"

#include <sys/stat.h>

#include <csignal>

#include "snapshot/snapshot_fixture.h"

namespace stoker::snapshot {
namespace {

TEST_F(SnapshotsTest, IsThereOnceItIsPublished) {
  const Store store = open_store();
  const Snapshots snapshots(store);
  EXPECT_TRUE(snapshots.ids()->empty());
  const Manifest manifest = made_manifest("m", {put_part(store, "config", "{}")});
  ASSERT_TRUE(snapshots.publish(manifest));
  ASSERT_TRUE(snapshots.publish(manifest));  // the same again is as good
  const Digest id = manifest.id();
  EXPECT_EQ(*snapshots.ids(), std::vector{id});
  EXPECT_EQ(*snapshots.read(id), manifest);
  EXPECT_EQ(*snapshots.id_of(id.hex().substr(0, 3)), id);
  EXPECT_EQ(snapshots.id_of("zz").error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(snapshots.missing_part(manifest));
  EXPECT_TRUE(names_in(tmp()).empty());
  ASSERT_TRUE(snapshots.remove(id));
  EXPECT_TRUE(snapshots.ids()->empty());
  EXPECT_EQ(snapshots.read(id).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(snapshots.id_of(id.hex()).error().code, ErrorCode::kNotFound);
}

TEST_F(SnapshotsTest, NamesNothingThatIsNotThere) {
  const Store store = open_store();
  const Snapshots snapshots(store);
  const Section config = put_part(store, "config", "{}");
  const Manifest manifest = made_manifest("m", {config, made_section("weights", 100)});
  const auto published = snapshots.publish(manifest);
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(snapshots.ids()->empty());
}

TEST_F(SnapshotsTest, TellsWhichObjectIsGoneOrCut) {
  const Store store = open_store();
  const Snapshots snapshots(store);
  const Section part = put_part(store, "config", "some text");
  const Manifest manifest = made_manifest("m", {part});
  ASSERT_TRUE(snapshots.publish(manifest));
  const auto path = objects() / part.object();
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  std::filesystem::resize_file(path, 3);
  auto missing = snapshots.missing_part(*snapshots.read(manifest.id()));
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->why.code, ErrorCode::kCorruptData);
  std::filesystem::remove(path);
  missing = snapshots.missing_part(manifest);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->why.code, ErrorCode::kNotFound);
  EXPECT_EQ(missing->section, part);
}

TEST_F(SnapshotsTest, AManifestUnderAnotherNameIsDamage) {
  const Store store = open_store();
  const Snapshots snapshots(store);
  const Manifest manifest = made_manifest("m", {put_part(store, "config", "{}")});
  ASSERT_TRUE(snapshots.publish(manifest));
  const std::string from = manifest.id().hex() + ".manifest";
  const Digest other = digest_of("other");
  std::filesystem::rename(snapshots_dir() / from, snapshots_dir() / (other.hex() + ".manifest"));
  EXPECT_EQ(snapshots.read(other).error().code, ErrorCode::kCorruptData);
}

TEST_F(SnapshotsTest, ALinkOrAFileThatOthersWriteIsRefused) {
  const Store store = open_store();
  const Snapshots snapshots(store);
  const Manifest manifest = made_manifest("m", {put_part(store, "config", "{}")});
  ASSERT_TRUE(snapshots.publish(manifest));
  const auto path = snapshots_dir() / (manifest.id().hex() + ".manifest");
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  EXPECT_EQ(snapshots.read(manifest.id()).error().code, ErrorCode::kCorruptData);
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  EXPECT_TRUE(snapshots.read(manifest.id()));
  std::filesystem::rename(path, dir_ / "elsewhere");
  std::filesystem::create_symlink(dir_ / "elsewhere", path);
  EXPECT_EQ(snapshots.read(manifest.id()).error().code, ErrorCode::kCorruptData);
}

TEST_F(SnapshotsTest, KeepsASignature) {
  const Store store = open_store();
  const Snapshots snapshots(store);
  const Manifest manifest = made_manifest("m", {put_part(store, "config", "{}")});
  ASSERT_TRUE(snapshots.publish(manifest));
  EXPECT_EQ(*snapshots.signature(manifest.id()), "");
  ASSERT_TRUE(snapshots.publish(manifest, "signed"));
  EXPECT_EQ(*snapshots.signature(manifest.id()), "signed");
  ASSERT_TRUE(snapshots.remove(manifest.id()));
  EXPECT_TRUE(names_in(snapshots_dir()).empty());
}

TEST_F(SnapshotsTest, LocksAreSharedOrNot) {
  const Store store = open_store();
  const Snapshots snapshots(store);
  const Digest id = digest_of("id");
  {
    const auto one = snapshots.use(id, Sharing::kShared);
    const auto two = snapshots.use(id, Sharing::kShared);
    ASSERT_TRUE(one && two);
    EXPECT_EQ(snapshots.use(id, Sharing::kAlone).error().code, ErrorCode::kOverloaded);
  }
  {
    const auto alone = snapshots.use(id, Sharing::kAlone);
    ASSERT_TRUE(alone);
    EXPECT_EQ(snapshots.use(id, Sharing::kShared).error().code, ErrorCode::kOverloaded);
  }
  const auto making = snapshots.change(Sharing::kShared);
  ASSERT_TRUE(making);
  int num_told = 0;
  const auto gave_up =
      snapshots.change(Sharing::kAlone, [&num_told](const std::string&) { return ++num_told < 3; });
  EXPECT_EQ(gave_up.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(num_told, 3);
}

// A killed process holds nothing.
TEST_F(SnapshotsTest, LocksEndWithTheirProcess) {
  const Store store = open_store();
  const Snapshots snapshots(store);
  EXPECT_EQ(run_in_child([&] {
              const auto lock = snapshots.use(digest_of("id"), Sharing::kAlone);
              ::kill(::getpid(), SIGKILL);
              return lock ? 0 : 1;
            }),
            -SIGKILL);
  EXPECT_TRUE(snapshots.use(digest_of("id"), Sharing::kAlone));
}

}  // namespace
}  // namespace stoker::snapshot
