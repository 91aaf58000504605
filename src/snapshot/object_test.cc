#include "snapshot/object.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <future>

#include "snapshot/attach.h"
#include "snapshot/background_verify.h"
#include "snapshot/store_fixture.h"

namespace stoker::snapshot {
namespace {

using ::testing::HasSubstr;

class ObjectTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    section_ = put(store(), key_, made_bytes(kTestBytes, 1));
    object_path_ = objects() / section_.object();
    table_path_ = objects() / table_name(section_);
  }

  Store store() const { return open_store(); }

  // Flips a bit of a file, whatever its mode says.
  static void flip(const std::filesystem::path& path, int64_t offset, int bit) {
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
    {
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekg(offset);
      const int byte = file.get();
      ASSERT_NE(byte, EOF);
      file.seekp(offset);
      file.put(static_cast<char>(byte ^ (1 << bit)));
    }
    ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  }

  static void resize(const std::filesystem::path& path, int64_t bytes) {
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
    std::filesystem::resize_file(path, static_cast<uintmax_t>(bytes));
    ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  }

  // That the object is refused, and why.
  void expect_refused(const std::string& reason) const {
    const auto object = store().map(section_);
    ASSERT_FALSE(object);
    EXPECT_EQ(object.error().code, ErrorCode::kCorruptData);
    EXPECT_THAT(object.error().message, HasSubstr(reason));
    EXPECT_THAT(object.error().message, HasSubstr(section_.object()));
  }

  Section section_;
  std::filesystem::path object_path_;
  std::filesystem::path table_path_;
};

TEST_F(ObjectTest, OneBitOfEachChunkIsFoundInItsPlace) {
  for (const int64_t chunk : {2, 1, 0}) {
    const int64_t offset = chunk * kChunkBytes + (chunk == 2 ? 12344 : kChunkBytes - 1);
    flip(object_path_, offset, static_cast<int>(chunk));
    const auto object = store().map(section_);
    ASSERT_TRUE(object) << object.error().message;
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(object->chunk_is_good(i), i < chunk) << i;
    for (const int num_threads : {1, 4}) {
      const auto verified = object->verify(num_threads);
      ASSERT_FALSE(verified);
      EXPECT_EQ(verified.error().code, ErrorCode::kCorruptData);
      EXPECT_THAT(verified.error().message, HasSubstr(section_.object()));
      EXPECT_THAT(verified.error().message,
                  HasSubstr("chunk " + std::to_string(chunk) + ", bytes " +
                            std::to_string(chunk * kChunkBytes) + " to "));
    }
  }
}

TEST_F(ObjectTest, ExchangedChunksAreFound) {
  std::vector<uint8_t> bytes = made_bytes(2 * kChunkBytes, 3);
  const Section section = put(store(), key_, bytes);
  std::rotate(bytes.begin(), bytes.begin() + kChunkBytes, bytes.end());
  const std::filesystem::path path = objects() / section.object();
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), 2 * kChunkBytes);
  const auto object = store().map(section);
  ASSERT_TRUE(object);
  EXPECT_FALSE(object->chunk_is_good(0));
  EXPECT_FALSE(object->chunk_is_good(1));
}

TEST_F(ObjectTest, EveryBitOfTheTableIsFound) {
  for (int64_t offset = 0; offset < 24; ++offset) {
    const int bit = static_cast<int>(offset % 8);
    flip(table_path_, offset, bit);
    expect_refused("expected the digest");
    flip(table_path_, offset, bit);
  }
  EXPECT_TRUE(store().map(section_));
}

TEST_F(ObjectTest, AKeyFileWithAChangedBitCountsAsNone) {
  flip(keys() / key_name("weights.0", key_), 30, 2);
  const Found found = store().find("weights.0", key_);
  EXPECT_FALSE(found.section);
  EXPECT_THAT(found.reason, HasSubstr("end="));
  EXPECT_THAT(found.reason, HasSubstr(key_name("weights.0", key_)));
}

TEST_F(ObjectTest, AKeyFileUnderAnotherNameCountsAsNone) {
  const Digest other = digest_of("another key");
  std::filesystem::rename(keys() / key_name("weights.0", key_),
                          keys() / key_name("weights.0", other));
  const Found found = store().find("weights.0", other);
  EXPECT_FALSE(found.section);
  EXPECT_THAT(found.reason, HasSubstr(key_.hex()));
}

TEST_F(ObjectTest, ALinkInThePlaceOfAKeyFileCountsAsNone) {
  const std::filesystem::path path = keys() / key_name("weights.0", key_);
  std::filesystem::rename(path, dir_ / "elsewhere");
  std::filesystem::create_symlink(dir_ / "elsewhere", path);
  EXPECT_THAT(store().find("weights.0", key_).reason, HasSubstr("symbolic link"));
}

TEST_F(ObjectTest, OtherSizesAreRefused) {
  resize(object_path_, kTestBytes - 1);
  expect_refused("found " + std::to_string(kTestBytes - 1));
  resize(object_path_, kTestBytes + 1);
  expect_refused("found " + std::to_string(kTestBytes + 1));
  resize(object_path_, kTestBytes);
  resize(table_path_, 16);
  expect_refused("expected 24 bytes, found 16");
  resize(table_path_, 32);
  expect_refused("expected 24 bytes, found 32");
}

TEST_F(ObjectTest, LinksAreRefused) {
  for (const auto& path : {object_path_, table_path_}) {
    std::filesystem::rename(path, dir_ / "elsewhere");
    std::filesystem::create_symlink(dir_ / "elsewhere", path);
    expect_refused("symbolic link");
    std::filesystem::rename(dir_ / "elsewhere", path);
    EXPECT_TRUE(store().map(section_));
  }
}

TEST_F(ObjectTest, FilesThatOthersCanWriteAreRefused) {
  for (const auto& path : {object_path_, table_path_}) {
    for (const mode_t mode : {0420, 0402, 0666}) {
      ASSERT_EQ(::chmod(path.c_str(), mode), 0);
      expect_refused("found mode 0");
    }
    ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
    EXPECT_TRUE(store().map(section_)) << "others may read";
  }
}

TEST_F(ObjectTest, FilesOfOthersAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIP: only root can give a file away";
  ASSERT_EQ(::chown(object_path_.c_str(), 12345, 0), 0);
  expect_refused("user 12345");
}

TEST_F(ObjectTest, PipesAndFoldersAreRefusedWithoutWaiting) {
  std::filesystem::remove(object_path_);
  ASSERT_EQ(::mkfifo(object_path_.c_str(), 0400), 0);
  expect_refused("expected a regular file");
  std::filesystem::remove(object_path_);
  std::filesystem::create_directory(object_path_);
  expect_refused("expected a regular file");
}

TEST_F(ObjectTest, WhatIsMissingIsToldApart) {
  std::filesystem::remove(table_path_);
  EXPECT_EQ(store().map(section_).error().code, ErrorCode::kNotFound);
}

TEST_F(ObjectTest, WildSectionsAreRefused) {
  Section wild = section_;
  wild.kind = "../objects/weights.0";
  EXPECT_EQ(store().map(wild).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store().remove(wild).error().code, ErrorCode::kInvalidArgument);
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    wild = section_;
    wild.bytes = bytes;
    EXPECT_EQ(store().map(wild).error().code, ErrorCode::kInvalidArgument);
  }
  wild = section_;
  wild.bytes = kMaxObjectBytes;
  EXPECT_EQ(store().map(wild).error().code, ErrorCode::kCorruptData);
  wild = section_;
  wild.table_digest = digest_of("other");
  EXPECT_EQ(store().map(wild).error().code, ErrorCode::kCorruptData);
}

// Two objects of the same size: the table and its digest agree, but not with the object's name.
TEST_F(ObjectTest, TheTableOfAnotherObjectIsRefused) {
  const Section other = put(store(), digest_of("another key"), made_bytes(kTestBytes, 2));
  std::filesystem::remove(table_path_);
  std::filesystem::copy_file(objects() / table_name(other), table_path_);
  section_.table_digest = other.table_digest;
  expect_refused("that of another object");
}

TEST_F(ObjectTest, PublishingPutsAnotherInThePlaceOfWhatIsRefused) {
  resize(object_path_, 10);
  expect_refused("found 10");
  EXPECT_EQ(put(store(), key_, made_bytes(kTestBytes, 1)), section_);
  const auto object = store().map(section_);
  ASSERT_TRUE(object);
  EXPECT_TRUE(object->verify(2));
}

TEST_F(ObjectTest, PublishingPutsAnotherInThePlaceOfWhatIsDamaged) {
  flip(object_path_, kTestBytes - 1, 0);
  EXPECT_EQ(put(store(), key_, made_bytes(kTestBytes, 1)), section_);
  const auto object = store().map(section_);
  ASSERT_TRUE(object);
  EXPECT_TRUE(object->verify(2));
}

TEST_F(ObjectTest, IsVerifiedInTheBackground) {
  const auto result_of = [](const Object& object) {
    std::promise<Result<void>> result;
    const BackgroundVerify verify({&object}, [&](Result<void> done, const Object* damaged) {
      EXPECT_EQ(damaged, done ? nullptr : &object);
      result.set_value(done);
    });
    return result.get_future().get();
  };
  EXPECT_TRUE(result_of(*store().map(section_)));
  flip(object_path_, kChunkBytes, 0);
  flip(object_path_, 2 * kChunkBytes, 0);
  const auto found = result_of(*store().map(section_));
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("chunk 1, bytes 4194304 to 8388608"));
}

TEST_F(ObjectTest, AVerificationThatIsDestroyedEnds) {
  const auto object = store().map(section_);
  ASSERT_TRUE(object);
  std::atomic<int> num_calls = 0;
  for (int i = 0; i < 20; ++i) {
    const BackgroundVerify verify(
        {&*object}, [&](const Result<void>& /*done*/, const Object* /*damaged*/) { ++num_calls; });
  }
  EXPECT_LE(num_calls, 20);
}

// The views of a model stay where they are.
TEST_F(ObjectTest, LetsGoOfItsMemoryAndTakesAnothersAtTheSameAddress) {
  const std::vector<uint8_t> bytes = made_bytes(kTestBytes, 1);
  const Section section = put(open_store(), key_, bytes);
  for (const AttachChoice choice : {AttachChoice::kMapped, AttachChoice::kDirect}) {
    auto object = open_store().map(section);
    ASSERT_TRUE(object) << object.error().message;
    const uint8_t* const at = object->bytes().data();
    ASSERT_TRUE(object->let_go());
    const int ended = run_in_child([&] {
      std::signal(SIGSEGV, SIG_DFL);  // sanitizers have a handler
      return *const_cast<volatile const uint8_t*>(at);
    });
    EXPECT_EQ(ended, -SIGSEGV);
    AttachOptions options;
    options.choice = choice;
    auto attached = attach(open_store(), section, options);
    if (!attached && attached.error().code == ErrorCode::kUnsupported) continue;
    ASSERT_TRUE(attached) << attached.error().message;
    ASSERT_TRUE(object->take_over(std::move(attached->object)));
    EXPECT_EQ(object->bytes().data(), at);
    EXPECT_TRUE(std::ranges::equal(object->bytes(), bytes));
    EXPECT_TRUE(object->verify(2));
    ASSERT_TRUE(object->let_go());
  }
}

}  // namespace
}  // namespace stoker::snapshot
