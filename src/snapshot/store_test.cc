#include "snapshot/store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "snapshot/store_fixture.h"

namespace stoker::snapshot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST_F(StoreTest, WhatIsPublishedIsFoundAndMapped) {
  const std::vector<uint8_t> bytes = made_bytes(kTestBytes, 1);
  Section section;
  {
    const Store store = open_store();
    EXPECT_TRUE(store.writable());
    const Found nothing = store.find("weights.0", key_);
    EXPECT_FALSE(nothing.section);
    EXPECT_THAT(nothing.reason, HasSubstr("No such file"));
    section = put(store, key_, bytes);
  }
  const Store store = open_store();
  const Found found = store.find("weights.0", key_);
  ASSERT_TRUE(found.section) << found.reason;
  EXPECT_EQ(*found.section, section);
  EXPECT_FALSE(store.find("weights.0", digest_of("another key")).section);
  EXPECT_FALSE(store.find("weights.1", key_).section);

  auto mapped = store.map(section);
  ASSERT_TRUE(mapped) << mapped.error().message;
  const Object object = *std::move(mapped);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), object.bytes().begin(), object.bytes().end()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(object.bytes().data()) % (2U << 20), 0U);
  EXPECT_EQ(object.num_chunks(), 3);
  for (const int num_threads : {1, 2, 5}) EXPECT_TRUE(object.verify(num_threads));
  EXPECT_THAT(names_in(tmp()), IsEmpty());
}

TEST_F(StoreTest, ObjectsOfEverySizeAroundAChunk) {
  const Store store = open_store();
  for (const int64_t bytes : {int64_t{1}, kChunkBytes - 1, kChunkBytes, kChunkBytes + 1}) {
    const Digest key = Hasher().add_number(bytes).digest();
    const Section section = put(store, key, made_bytes(bytes, 2));
    const auto object = store.map(section);
    ASSERT_TRUE(object) << object.error().message;
    EXPECT_EQ(object->bytes().size(), static_cast<size_t>(bytes));
    EXPECT_TRUE(object->verify(2));
  }
}

TEST_F(StoreTest, DigestsAreOfTheContentAlone) {
  const Store store = open_store();
  const Section section = put(store, key_, made_bytes(kTestBytes, 1));
  const std::string table = text_in(objects() / table_name(section));
  EXPECT_EQ(table.size(), 3U * 8);
  EXPECT_EQ(section.table_digest, digest_of(table));
  EXPECT_EQ(section.digest, object_digest(bytes_of(table), kTestBytes));
  EXPECT_EQ(text_in(keys() / key_name("weights.0", key_)), key_file_text(section));

  const Section same = put(store, digest_of("another key"), made_bytes(kTestBytes, 1));
  EXPECT_EQ(same.object(), section.object());
  const Section other = put(store, key_, made_bytes(kTestBytes, 2));
  EXPECT_NE(other.object(), section.object());
  EXPECT_EQ(*store.find("weights.0", key_).section, other) << "the newer counts";
}

TEST_F(StoreTest, FilesAreReadOnlyAndFoldersPrivate) {
  const Store store = open_store();
  const Section section = put(store, key_, made_bytes(1000, 1));
  const auto mode_of = [](const std::filesystem::path& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777U;
  };
  EXPECT_EQ(mode_of(objects() / section.object()), 0400U);
  EXPECT_EQ(mode_of(objects() / table_name(section)), 0400U);
  EXPECT_EQ(mode_of(keys() / key_name("weights.0", key_)), 0400U);
  EXPECT_EQ(mode_of(store.dir()), 0700U);
  EXPECT_EQ(mode_of(objects()), 0700U);
  EXPECT_THAT(names_in(store.dir()),
              UnorderedElementsAre("objects", "keys", "tmp", "snapshots", "use"));
}

TEST_F(StoreTest, TwoWritersOfTheSameObjectKeepTheFirst) {
  const Store store = open_store();
  const std::vector<uint8_t> bytes = made_bytes(kTestBytes, 1);
  auto first = store.create("weights.0", kTestBytes);
  auto second = store.create("weights.0", kTestBytes);
  ASSERT_TRUE(first && second);
  EXPECT_THAT(names_in(tmp()), testing::SizeIs(2));
  ASSERT_TRUE(first->write(0, bytes) && second->write(0, bytes));
  const auto published = first->publish(key_, 1);
  ASSERT_TRUE(published);
  struct stat before {};
  ASSERT_EQ(::stat((objects() / published->object()).c_str(), &before), 0);
  const auto again = second->publish(key_, 1);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *published);
  struct stat after {};
  ASSERT_EQ(::stat((objects() / published->object()).c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
}

TEST_F(StoreTest, ATextIsNeverGoneForTheSnapshotsThatNameIt) {
  const Store store = open_store();
  const auto first = store.put_text("canary", key_, "one");
  ASSERT_TRUE(first);
  struct stat before {};
  ASSERT_EQ(::stat((objects() / first->object()).c_str(), &before), 0);
  for (const char* const text : {"one", "two"}) {
    const auto next = store.put_text("canary", key_, text);
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(store.find("canary", key_).section.value(), *next);
    EXPECT_EQ(store.text_of(*next, 9).value(), text);
    struct stat after {};
    ASSERT_EQ(::stat((objects() / first->object()).c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino);
  }
}

TEST_F(StoreTest, ThreadsWritePartsOfOneObject) {
  const Store store = open_store();
  const std::vector<uint8_t> bytes = made_bytes(kTestBytes, 1);
  auto writer = store.create("weights.0", kTestBytes);
  ASSERT_TRUE(writer);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        constexpr size_t kPart = 100'000;
        for (size_t at = t * kPart; at < bytes.size(); at += 4 * kPart) {
          const Bytes part = Bytes(bytes).subspan(at, std::min(kPart, bytes.size() - at));
          EXPECT_TRUE(writer->write(static_cast<int64_t>(at), part));
        }
      });
    }
  }
  double last = 0;
  const auto section = writer->publish(key_, 3, [&](double fraction) { last = fraction; });
  ASSERT_TRUE(section);
  EXPECT_LE(last, 1);
  EXPECT_EQ(put(store, digest_of("other"), bytes).object(), section->object());
}

TEST_F(StoreTest, PartsBeyondTheEndAreRefusedAndGapsAreZero) {
  const Store store = open_store();
  auto writer = store.create("weights.0", 100);
  ASSERT_TRUE(writer);
  const std::vector<uint8_t> part(60, 1);
  for (const int64_t wrong : {int64_t{-1}, int64_t{41}, int64_t{100}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(writer->write(wrong, part).error().code, ErrorCode::kInvalidArgument) << wrong;
  }
  EXPECT_TRUE(writer->write(40, part));
  const auto section = writer->publish(key_, 1);
  ASSERT_TRUE(section);
  EXPECT_FALSE(writer->write(0, part)) << "what is published never changes";
  const auto object = store.map(*section);
  ASSERT_TRUE(object);
  EXPECT_EQ(object->bytes()[39], 0);
  EXPECT_EQ(object->bytes()[40], 1);
}

TEST_F(StoreTest, LimitsOfKindAndSize) {
  const Store store = open_store();
  EXPECT_EQ(store.create("a/b", 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store.create("", 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store.create("a", 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store.create("a", -1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store.create("a", kMaxObjectBytes + 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store.lock("../x", key_).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(store.find("../x", key_).section);
  EXPECT_THAT(names_in(tmp()), IsEmpty());
}

TEST_F(StoreTest, AnAbandonedObjectLeavesNothing) {
  const Store store = open_store();
  {
    auto writer = store.create("weights.0", kTestBytes);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(0, made_bytes(1000, 1)));
    EXPECT_EQ(store.remove_leftovers(), 0) << "it is in use";
    EXPECT_THAT(names_in(tmp()), testing::SizeIs(1));
  }
  EXPECT_THAT(names_in(tmp()), IsEmpty());
  EXPECT_THAT(names_in(objects()), IsEmpty());
}

TEST_F(StoreTest, WhatTheStoreNeverMadeStaysInTmp) {
  const Store store = open_store();
  std::ofstream(tmp() / "notes.txt") << "x";
  std::filesystem::create_directory(tmp() / "folder");
  std::filesystem::create_directory(tmp() / digest_of("left").hex());
  EXPECT_EQ(store.remove_leftovers(), 1);
  EXPECT_THAT(names_in(tmp()), UnorderedElementsAre("notes.txt", "folder"));
}

TEST_F(StoreTest, ARemovedObjectIsGoneAndItsMappingStays) {
  const Store store = open_store();
  const Section section = put(store, key_, made_bytes(kTestBytes, 1));
  const auto object = store.map(section);
  ASSERT_TRUE(object);
  ASSERT_TRUE(store.remove(section));
  EXPECT_FALSE(store.find("weights.0", key_).section);
  EXPECT_EQ(store.map(section).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(names_in(objects()), IsEmpty());
  EXPECT_TRUE(object->verify(2));
  EXPECT_TRUE(store.remove(section)) << "once more";
}

TEST_F(StoreTest, ASpaceThatNoDiskHasIsRefusedAtOnceWithBothNumbers) {
  const Store store = open_store();
  const auto writer = store.create("weights.0", kMaxObjectBytes);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, ErrorCode::kResourceExhausted);
  const int64_t needed = kMaxObjectBytes + kMaxObjectBytes / kChunkBytes * 8;
  EXPECT_THAT(writer.error().message, HasSubstr("expected " + std::to_string(needed) + " bytes"));
  EXPECT_THAT(writer.error().message, HasSubstr("found "));
  EXPECT_THAT(names_in(tmp()), IsEmpty());
}

TEST_F(StoreTest, FoldersThatOthersCanWriteAreRefused) {
  (void)open_store();
  for (const std::string part : {"", "objects", "keys", "tmp"}) {
    const std::filesystem::path folder = dir_ / "store" / part;
    ASSERT_EQ(::chmod(folder.c_str(), 0770), 0);
    const auto opened = Store::open((dir_ / "store").string());
    ASSERT_FALSE(opened) << part;
    EXPECT_EQ(opened.error().code, ErrorCode::kCorruptData);
    EXPECT_THAT(opened.error().message, HasSubstr("0770"));
    ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  }
  std::filesystem::rename(keys(), dir_ / "elsewhere");
  std::filesystem::create_symlink(dir_ / "elsewhere", keys());
  EXPECT_FALSE(Store::open((dir_ / "store").string())) << "a part that is a link";
}

TEST_F(StoreTest, NoStoreWhereNoneCanBe) {
  std::ofstream(dir_ / "file") << "x";
  EXPECT_FALSE(Store::open((dir_ / "file").string()));
  EXPECT_FALSE(Store::open((dir_ / "file" / "store").string()));
  EXPECT_FALSE(Store::open(""));
  EXPECT_TRUE(Store::open((dir_ / "a" / "b" / "c").string()));
}

TEST(StoreDir, ComesFromTheEnvironment) {
  const auto dir_in = [](const char* store, const char* cache, const char* home) {
    return run_in_child([&] {
      ::clearenv();
      if (store != nullptr) ::setenv("STOKER_STORE", store, 1);
      if (cache != nullptr) ::setenv("XDG_CACHE_HOME", cache, 1);
      if (home != nullptr) ::setenv("HOME", home, 1);
      const auto dir = Store::default_dir();
      if (!dir) return 0;
      if (*dir == "/s") return 1;
      if (*dir == "/c/stoker") return 2;
      return *dir == "/h/.cache/stoker" ? 3 : 4;
    });
  };
  EXPECT_EQ(dir_in("/s", "/c", "/h"), 1);
  EXPECT_EQ(dir_in(nullptr, "/c", "/h"), 2);
  EXPECT_EQ(dir_in("", "relative", "/h"), 3);
  EXPECT_EQ(dir_in(nullptr, nullptr, nullptr), 0);
}

}  // namespace
}  // namespace stoker::snapshot
