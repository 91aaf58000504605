#include "catalogue/snapshot_stream.h"

#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <map>
#include <random>

#include "snapshot/collect.h"
#include "snapshot/snapshot_fixture.h"
#include "snapshot/snapshots.h"

namespace stoker::catalogue {
namespace {

using snapshot::Manifest;
using snapshot::Snapshots;
using snapshot::Store;
using ::testing::HasSubstr;

class SnapshotStream : public snapshot::SnapshotsTest {
 protected:
  void SetUp() override {
    SnapshotsTest::SetUp();
    auto from = Store::open((dir_ / "from").string());
    ASSERT_TRUE(from);
    const auto weights = put(*from, key_, snapshot::made_bytes(snapshot::kTestBytes, 7));
    manifest_ = snapshot::made_manifest("m", {put_part(*from, "config", "{\"a\": 1}"), weights});
    ASSERT_TRUE(Snapshots(*from).publish(manifest_));
    const auto written = write_stream(*from, manifest_, "signed",
                                      [this](Bytes bytes) {
                                        stream_.insert(stream_.end(), bytes.begin(), bytes.end());
                                        return Result<void>();
                                      },
                                      {});
    ASSERT_TRUE(written) << written.error().message;
  }

  static Result<Manifest> import_bytes(const Store& store, Bytes bytes) {
    MemorySource source(bytes);
    return import_stream(store, source, {});
  }

  static std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      files[entry.path().filename().string()] = snapshot::text_in(entry.path());
    return files;
  }

  // Nothing to see but whole objects, and those go.
  void expect_nothing_is_left(const Store& store) const {
    EXPECT_TRUE(Snapshots(store).ids()->empty());
    EXPECT_TRUE(names_in(tmp()).empty());
    ASSERT_TRUE(snapshot::collect(store, {}));
    EXPECT_TRUE(names_in(objects()).empty());
  }

  Manifest manifest_;
  std::vector<uint8_t> stream_;
};

TEST_F(SnapshotStream, BringsTheSameFiles) {
  const Store store = open_store();
  const auto manifest = import_bytes(store, stream_);
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(*manifest, manifest_);
  EXPECT_EQ(files_of(objects()), files_of(dir_ / "from" / "objects"));
  EXPECT_EQ(*Snapshots(store).text(manifest_.id()), snapshot::manifest_text(manifest_));
  EXPECT_EQ(*Snapshots(store).signature(manifest_.id()), "signed");
  EXPECT_TRUE(names_in(tmp()).empty());
  EXPECT_TRUE(names_in(keys()).empty());
  ASSERT_TRUE(import_bytes(store, stream_));  // once more is as good
}

// Each cut in small texts, and many in the chunks.
TEST_F(SnapshotStream, RefusesEveryCut) {
  const Store store = open_store();
  std::mt19937 random(1);
  for (size_t size = 0; size < stream_.size(); size += size < 800 ? 1 : random() % 900'000) {
    const auto manifest = import_bytes(store, Bytes(stream_).first(size));
    ASSERT_FALSE(manifest) << size;
    EXPECT_EQ(manifest.error().code, ErrorCode::kCorruptData);
    EXPECT_THAT(manifest.error().message, HasSubstr("of the stream"));
  }
  for (size_t left = 1; left < 2000; left += 37)
    ASSERT_FALSE(import_bytes(store, Bytes(stream_).first(stream_.size() - left))) << left;
  expect_nothing_is_left(store);
}

TEST_F(SnapshotStream, RefusesChangedBytes) {
  const Store store = open_store();
  std::mt19937 random(2);
  std::vector<size_t> places;
  for (size_t i = 0; i < 700; i += 3) places.push_back(i);
  for (int i = 0; i < 30; ++i) places.push_back(random() % stream_.size());
  for (size_t i = 1; i < 1500; i += 41) places.push_back(stream_.size() - i);
  for (const size_t place : places) {
    stream_[place] ^= 1;
    const auto manifest = import_bytes(store, stream_);
    EXPECT_FALSE(manifest) << "byte " << place;
    stream_[place] ^= 1;
  }
  expect_nothing_is_left(store);
}

TEST_F(SnapshotStream, RefusesWhatFollows) {
  const Store store = open_store();
  stream_.push_back(0);
  const auto manifest = import_bytes(store, stream_);
  ASSERT_FALSE(manifest);
  EXPECT_THAT(manifest.error().message, HasSubstr("found more bytes"));
  expect_nothing_is_left(store);
}

// A stream that somebody made with what no snapshot may take along.
TEST_F(SnapshotStream, RefusesCachedPrefixesBeforeTheyAreRead) {
  const Store from = *Store::open((dir_ / "from").string());
  const auto kind = std::string(snapshot::kPrivateKind);
  const Manifest manifest = snapshot::made_manifest(
      "m", {put_part(from, "config", "{\"a\": 1}"), put_part(from, kind, "what users wrote")});
  std::vector<uint8_t> stream;
  ASSERT_TRUE(write_stream(from, manifest, "",
                           [&stream](Bytes bytes) {
                             stream.insert(stream.end(), bytes.begin(), bytes.end());
                             return Result<void>();
                           },
                           {}));
  const Store store = open_store();
  const auto imported = import_bytes(store, stream);
  ASSERT_FALSE(imported);
  EXPECT_EQ(imported.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(imported.error().message, HasSubstr("stay on their host"));
  expect_nothing_is_left(store);
}

TEST_F(SnapshotStream, SaysWhereAChunkIsWrong) {
  const Store store = open_store();
  stream_[stream_.size() / 2] ^= 4;
  const auto manifest = import_bytes(store, stream_);
  ASSERT_FALSE(manifest);
  EXPECT_THAT(manifest.error().message, HasSubstr("found others in chunk 1"));
}

TEST_F(SnapshotStream, IsNotWrittenOfDamage) {
  const Store from = *Store::open((dir_ / "from").string());
  const auto path = dir_ / "from" / "objects" / manifest_.find("weights.0")->object();
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(snapshot::kChunkBytes + 1);
  file.put('?');
  file.close();
  const auto written = write_stream(from, manifest_, "", [](Bytes) { return Result<void>(); }, {});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kCorruptData);
  EXPECT_THAT(written.error().message, HasSubstr("chunk 1"));
}

TEST_F(SnapshotStream, AFullDiskLeavesNothing) {
  const int code = snapshot::run_in_child([&] {
    if (!snapshot::has_own_mounts()) return snapshot::kChildSkips;
    const std::string small = (dir_ / "store").string();
    std::filesystem::create_directory(small);
    if (::mount("none", small.c_str(), "tmpfs", 0, "size=6m,mode=700") != 0)
      return snapshot::kChildSkips;
    const auto store = Store::open(small);
    EXPECT_IN_CHILD(store);
    const auto manifest = import_bytes(*store, stream_);
    EXPECT_IN_CHILD(!manifest && manifest.error().code == ErrorCode::kResourceExhausted);
    EXPECT_IN_CHILD(names_in(tmp()).empty() && Snapshots(*store).ids()->empty());
    return 0;
  });
  if (code == snapshot::kChildSkips) GTEST_SKIP() << "SKIP: no mount namespace can be made here";
  EXPECT_EQ(code, 0);
}

TEST_F(SnapshotStream, ALimitOfFileSizesLeavesNothing) {
  const Store store = open_store();
  const int code = snapshot::run_in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{5 << 20, 5 << 20};
    EXPECT_IN_CHILD(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    const auto manifest = import_bytes(store, stream_);
    EXPECT_IN_CHILD(!manifest && manifest.error().code == ErrorCode::kIo);
    return 0;
  });
  EXPECT_EQ(code, 0);
  expect_nothing_is_left(store);
}

// A process that is killed at any moment leaves a store that the next import completes.
TEST_F(SnapshotStream, SurvivesKillsAtRandomMoments) {
  const Store store = open_store();
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) {
    const size_t kill_at = random() % stream_.size();
    const int code = snapshot::run_in_child([&] {
      struct Killer : MemorySource {
        Killer(Bytes bytes, size_t at) : MemorySource(bytes), left(at) {}
        Result<size_t> read_some(std::span<uint8_t> out) override {
          if (out.size() > left) ::raise(SIGKILL);
          left -= out.size();
          return MemorySource::read_some(out);
        }
        size_t left;
      } source(stream_, kill_at);
      return import_stream(store, source, {}) ? 1 : 2;
    });
    EXPECT_EQ(code, -SIGKILL);
    EXPECT_TRUE(Snapshots(store).ids()->empty());
    if (i % 3 == 0) {
      ASSERT_TRUE(snapshot::collect(store, {}));
      EXPECT_TRUE(names_in(tmp()).empty() && names_in(objects()).empty());
    }
  }
  ASSERT_TRUE(import_bytes(store, stream_));
  ASSERT_TRUE(snapshot::collect(store, {}));
  EXPECT_TRUE(names_in(tmp()).empty());
  EXPECT_EQ(files_of(objects()), files_of(dir_ / "from" / "objects"));
}

}  // namespace
}  // namespace stoker::catalogue
