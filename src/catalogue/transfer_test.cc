#include "catalogue/transfer.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <csignal>
#include <map>
#include <random>

#include "snapshot/collect.h"
#include "snapshot/snapshot_fixture.h"

namespace stoker::catalogue {
namespace {

using snapshot::Manifest;
using snapshot::Snapshots;
using snapshot::Store;
using ::testing::HasSubstr;

// A store that is a catalogue, behind a source that fails as it is told to.
class Transfer : public snapshot::SnapshotsTest {
 protected:
  void SetUp() override {
    SnapshotsTest::SetUp();
    ASSERT_TRUE(make_catalogue(from_dir()));
    const auto from = Store::open(from_dir());
    ASSERT_TRUE(from);
    const auto weights = put(*from, key_, snapshot::made_bytes(snapshot::kTestBytes, 7));
    manifest_ = snapshot::made_manifest("m", {put_part(*from, "config", "{\"a\": 1}"), weights});
    ASSERT_TRUE(Snapshots(*from).publish(manifest_, "signed"));
    ASSERT_TRUE(list_snapshot(*from, manifest_));
  }

  std::string from_dir() const { return (dir_ / "from").string(); }
  std::filesystem::path weights_file() const {
    return dir_ / "from" / "objects" / manifest_.find("weights.0")->object();
  }

  Result<void> fetch(const Store& store, Source& source) const {
    const auto listed = read_listed(source, manifest_.id());
    return listed ? fetch_snapshot(store, source, *listed, {}) : listed.error();
  }
  Result<void> fetch(const Store& store) const {
    auto source = open_source(from_dir());
    EXPECT_TRUE(source);
    return fetch(store, **source);
  }

  static std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      files[entry.path().filename().string()] = snapshot::text_in(entry.path());
    return files;
  }
  void expect_the_same(const Store& store) const {
    EXPECT_EQ(files_of(objects()), files_of(dir_ / "from" / "objects"));
    EXPECT_EQ(files_of(snapshots_dir()), files_of(dir_ / "from" / "snapshots"));
    EXPECT_FALSE(Snapshots(store).missing_part(manifest_));
    EXPECT_TRUE(names_in(tmp()).empty());
  }

  Manifest manifest_;
};

// A source whose connections are lost after so many bytes, or that kills the process there.
class FailingSource : public Source {
 public:
  FailingSource(Source& source, size_t num_bytes, bool kills)
      : source_(source), left_(num_bytes), num_bytes_(num_bytes), kills_(kills) {}

  Result<std::unique_ptr<ByteSource>> open(const std::string& path, int64_t offset,
                                           int64_t num_bytes) override {
    if (path.starts_with("objects/weights") && !path.ends_with(".table")) offsets.push_back(offset);
    auto bytes = source_.open(path, offset, num_bytes);
    if (!bytes) return bytes;
    if (!kills_) left_ = num_bytes_;
    return std::unique_ptr<ByteSource>(new Failing(*this, *std::move(bytes)));
  }

  std::vector<int64_t> offsets;

 private:
  struct Failing : ByteSource {
    Failing(FailingSource& source, std::unique_ptr<ByteSource> from)
        : of(source), bytes(std::move(from)) {}
    Result<size_t> read_some(std::span<uint8_t> out) override {
      if (of.left_ == 0 && of.kills_) ::raise(SIGKILL);
      if (of.left_ == 0) return Error{ErrorCode::kPeerLost, "lost", ""};
      auto n = bytes->read_some(out.first(std::min(out.size(), of.left_)));
      if (n) of.left_ -= *n;
      return n;
    }
    FailingSource& of;
    std::unique_ptr<ByteSource> bytes;
  };

  Source& source_;
  size_t left_;
  const size_t num_bytes_;
  const bool kills_;
};

TEST_F(Transfer, BringsTheSameFiles) {
  const Store store = open_store();
  auto source = open_source(from_dir());
  const auto index = read_index(**source);
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(*index, (std::vector{IndexEntry{manifest_.id(), "m"}}));
  EXPECT_EQ(missing_bytes(store, manifest_), manifest_.bytes());
  const auto fetched = fetch(store, **source);
  ASSERT_TRUE(fetched) << fetched.error().message;
  expect_the_same(store);
  EXPECT_EQ(missing_bytes(store, manifest_), 0);
  ASSERT_TRUE(fetch(store));
}

TEST_F(Transfer, EverybodyMayReadACatalogue) {
  for (const auto& path : {weights_file(), dir_ / "from" / "index",
                           dir_ / "from" / "snapshots" / (manifest_.id().hex() + ".manifest")}) {
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0444U) << path;
  }
  struct stat status {};
  ASSERT_EQ(::stat((dir_ / "from" / "objects").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0755U);
}

TEST_F(Transfer, GoesOnAfterLostConnections) {
  const Store store = open_store();
  auto source = open_source(from_dir());
  FailingSource failing(**source, (5 << 20) + 1, false);
  const auto fetched = fetch(store, failing);
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(failing.offsets, (std::vector<int64_t>{0, snapshot::kChunkBytes}));
  expect_the_same(store);
}

TEST_F(Transfer, GivesUpWhereNothingComes) {
  const Store store = open_store();
  auto source = open_source(from_dir());
  FailingSource failing(**source, 70'000, false);
  const auto fetched = fetch(store, failing);
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, ErrorCode::kPeerLost);
  EXPECT_EQ(failing.offsets.size(), 5U);
  EXPECT_TRUE(Snapshots(store).ids()->empty());
}

TEST_F(Transfer, RefusesWrongBytesAndSizes) {
  const Store store = open_store();
  std::filesystem::permissions(weights_file(), std::filesystem::perms(0600));
  std::fstream file(weights_file(), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(snapshot::kChunkBytes + 7);
  file.put('?');
  file.close();
  auto fetched = fetch(store);
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, ErrorCode::kCorruptData);
  EXPECT_THAT(fetched.error().message, HasSubstr("chunk 1"));
  std::filesystem::resize_file(weights_file(), 100);
  fetched = fetch(store);
  ASSERT_FALSE(fetched);
  EXPECT_THAT(fetched.error().message, HasSubstr("bytes, found 100"));
  std::filesystem::remove(weights_file());
  EXPECT_EQ(fetch(store).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(Snapshots(store).ids()->empty());
  ASSERT_TRUE(snapshot::collect(store, {}));
  EXPECT_TRUE(names_in(tmp()).empty() && names_in(objects()).empty());
}

TEST_F(Transfer, SurvivesKillsAtRandomMoments) {
  const Store store = open_store();
  std::mt19937 random(5);
  size_t num_in_tmp = 0;
  for (int i = 0; i < 20; ++i) {
    const size_t kill_at = 1000 + random() % static_cast<size_t>(snapshot::kTestBytes);
    const int code = snapshot::run_in_child([&] {
      auto source = open_source(from_dir());
      FailingSource killing(**source, kill_at, true);
      return fetch(store, killing) ? 0 : 2;
    });
    EXPECT_TRUE(code == -SIGKILL || code == 0) << code;
    if (code == 0) {
      ASSERT_TRUE(Snapshots(store).remove(manifest_.id()));
    }
    num_in_tmp += names_in(tmp()).size();
    if (i % 4 == 3) {
      ASSERT_TRUE(snapshot::collect(store, {}));
      EXPECT_TRUE(names_in(tmp()).empty() && names_in(objects()).empty());
    }
  }
  EXPECT_GT(num_in_tmp, 0U);
  ASSERT_TRUE(fetch(store));
  ASSERT_TRUE(snapshot::collect(store, {}));
  expect_the_same(store);
}

}  // namespace
}  // namespace stoker::catalogue
