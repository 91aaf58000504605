#include "snapshot/arrival.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <csignal>

#include "snapshot/collect.h"
#include "snapshot/snapshot_fixture.h"

namespace stoker::snapshot {
namespace {

class ArrivalTest : public SnapshotsTest {
 protected:
  void SetUp() override {
    SnapshotsTest::SetUp();
    auto from = Store::open((dir_ / "from").string());
    ASSERT_TRUE(from);
    section_ = put(*from, key_, content_);
    table_ = text_in(dir_ / "from" / "objects" / table_name(section_));
  }

  Arrival begin(const Store& store, Arrival::Left left) const {
    auto arrival = Arrival::begin(store, section_, left);
    EXPECT_TRUE(arrival) << arrival.error().message;
    return *std::move(arrival);
  }
  Bytes next_chunk(const Arrival& arrival) const {
    return Bytes(content_).subspan(static_cast<size_t>(arrival.num_bytes()),
                                   static_cast<size_t>(arrival.next_chunk_bytes()));
  }
  void add_chunks(Arrival& arrival, int num_chunks) const {
    for (int i = 0; i < num_chunks; ++i) {
      const auto added = arrival.add_chunk(next_chunk(arrival));
      ASSERT_TRUE(added) << added.error().message;
    }
  }
  std::filesystem::path part() const { return tmp() / (section_.object() + ".part"); }

  const std::vector<uint8_t> content_ = made_bytes(kTestBytes, 3);
  Section section_;
  std::string table_;
};

TEST_F(ArrivalTest, IsThereOnceItIsPlaced) {
  const Store store = open_store();
  {
    Arrival arrival = begin(store, Arrival::Left::kKept);
    EXPECT_FALSE(arrival.is_there());
    EXPECT_FALSE(arrival.has_table());
    ASSERT_TRUE(arrival.set_table(table_));
    add_chunks(arrival, 3);
    EXPECT_FALSE(store.open_object(section_));
    ASSERT_TRUE(arrival.place());
  }
  const auto object = store.map(section_);
  ASSERT_TRUE(object) << object.error().message;
  EXPECT_TRUE(object->verify(2));
  EXPECT_TRUE(names_in(tmp()).empty());
  EXPECT_TRUE(names_in(keys()).empty());
  EXPECT_TRUE(begin(store, Arrival::Left::kKept).is_there());
}

TEST_F(ArrivalTest, GoesOnWhereItWas) {
  const Store store = open_store();
  {
    Arrival arrival = begin(store, Arrival::Left::kKept);
    ASSERT_TRUE(arrival.set_table(table_));
    add_chunks(arrival, 2);
  }
  {
    Arrival again = begin(store, Arrival::Left::kKept);
    EXPECT_TRUE(again.has_table());
    EXPECT_EQ(again.num_bytes(), 2 * kChunkBytes);
    add_chunks(again, 1);
    ASSERT_TRUE(again.place());
  }
  EXPECT_TRUE(store.map(section_)->verify(1));
}

TEST_F(ArrivalTest, BelievesOfWhatIsThereOnlyGoodChunks) {
  const Store store = open_store();
  {
    Arrival arrival = begin(store, Arrival::Left::kKept);
    ASSERT_TRUE(arrival.set_table(table_));
    add_chunks(arrival, 3);
  }
  std::fstream file(part() / "object", std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(kChunkBytes + 5);
  file.put('?');
  file.close();
  EXPECT_EQ(begin(store, Arrival::Left::kKept).num_bytes(), kChunkBytes);
  std::ofstream(part() / "table", std::ios::binary) << "another";
  std::filesystem::permissions(part() / "table", std::filesystem::perms(0600));
  std::ofstream(part() / "table", std::ios::binary) << "another";
  const Arrival again = begin(store, Arrival::Left::kKept);
  EXPECT_FALSE(again.has_table());
  EXPECT_EQ(again.num_bytes(), 0);
}

TEST_F(ArrivalTest, RefusesOtherBytes) {
  const Store store = open_store();
  Arrival arrival = begin(store, Arrival::Left::kRemoved);
  std::string other = table_;
  other[3] = static_cast<char>(other[3] ^ 1);
  EXPECT_EQ(arrival.set_table(other).error().code, ErrorCode::kCorruptData);
  EXPECT_EQ(arrival.set_table(table_ + "x").error().code, ErrorCode::kCorruptData);
  ASSERT_TRUE(arrival.set_table(table_));
  add_chunks(arrival, 1);
  const Bytes good = next_chunk(arrival);
  std::vector<uint8_t> chunk(good.begin(), good.end());
  chunk.back() ^= 1;
  const auto added = arrival.add_chunk(chunk);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, ErrorCode::kCorruptData);
  EXPECT_THAT(added.error().message, ::testing::HasSubstr("chunk 1, bytes 4194304 to 8388608"));
  add_chunks(arrival, 2);  // the right ones are still taken
}

TEST_F(ArrivalTest, LeavesNothingWhereToldTo) {
  const Store store = open_store();
  {
    Arrival arrival = begin(store, Arrival::Left::kRemoved);
    ASSERT_TRUE(arrival.set_table(table_));
    add_chunks(arrival, 1);
  }
  EXPECT_TRUE(names_in(tmp()).empty());
}

TEST_F(ArrivalTest, IsCollectedWhereNobodyGoesOn) {
  const Store store = open_store();
  const int code = run_in_child([&] {
    auto arrival = Arrival::begin(store, section_, Arrival::Left::kKept);
    if (!arrival || !arrival->set_table(table_) || !arrival->add_chunk(next_chunk(*arrival)))
      return 1;
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(code, -SIGKILL);
  store.remove_leftovers();  // of a start: the part stays, its lock goes
  EXPECT_THAT(names_in(tmp()), ::testing::ElementsAre(section_.object() + ".part"));
  const auto collected = collect(store, {});
  ASSERT_TRUE(collected) << collected.error().message;
  EXPECT_EQ(collected->num_leftovers, 1);
  EXPECT_TRUE(names_in(tmp()).empty());
}

// As of a snapshot that did not come whole.
TEST_F(ArrivalTest, PlansWithoutAKeyAreCollected) {
  const Store store = open_store();
  const Section kept = put_part(store, "plans", "of this machine");
  const Section left = put_part(store, "plans", "of another");
  std::filesystem::remove(keys() / ("plans-" + left.key.hex()));
  ASSERT_TRUE(collect(store, {}));
  EXPECT_TRUE(store.map(kept));
  EXPECT_FALSE(store.map(left));
}

TEST_F(ArrivalTest, TellsAFullDiskBeforeTheWork) {
  const int code = run_in_child([&] {
    if (!has_own_mounts()) return kChildSkips;
    const std::string small = (dir_ / "small").string();
    std::filesystem::create_directory(small);
    if (::mount("none", small.c_str(), "tmpfs", 0, "size=6m,mode=700") != 0) return kChildSkips;
    const auto store = Store::open(small);
    EXPECT_IN_CHILD(store);
    const auto arrival = Arrival::begin(*store, section_, Arrival::Left::kKept);
    EXPECT_IN_CHILD(!arrival && arrival.error().code == ErrorCode::kResourceExhausted);
    EXPECT_IN_CHILD(arrival.error().message.find("expected 8400977 bytes") != std::string::npos);
    return 0;
  });
  if (code == kChildSkips) GTEST_SKIP() << "SKIP: no mount namespace can be made here";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace stoker::snapshot
