#include "base/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

namespace stoker {
namespace {

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("stoker_mapped_" + std::to_string(::getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string path(const char* name) const { return (dir_ / name).string(); }

  std::filesystem::path dir_;
};

TEST_F(MappedFileTest, WhatIsWrittenIsMapped) {
  const std::string text = "some bytes";
  ASSERT_TRUE(write_file_atomically(path("a"),
                                    {reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  auto mapped = MappedFile::open(path("a"));
  ASSERT_TRUE(mapped);
  const MappedFile moved = *std::move(mapped);
  EXPECT_EQ(std::string(moved.bytes().begin(), moved.bytes().end()), text);
  EXPECT_EQ(*read_file(path("a"), 100), text);
  EXPECT_EQ(read_file(path("a"), 3).error().code, ErrorCode::kInvalidArgument);
  size_t num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_))
    num_files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(num_files, 1U) << "no temporary stays behind";
}

TEST_F(MappedFileTest, AnotherFileOrTimeIsAnotherIdentity) {
  const auto identity = [&] {
    const auto mapped = MappedFile::open(path("a"));
    EXPECT_TRUE(mapped) << mapped.error().message;
    return mapped ? mapped->identity() : FileIdentity{};
  };
  std::ofstream(path("a")) << "abc";
  const FileIdentity first = identity();
  EXPECT_EQ(first.bytes, 3);
  EXPECT_EQ(identity(), first);
  const auto changed = std::filesystem::last_write_time(path("a"));
  std::filesystem::last_write_time(path("a"), changed + std::chrono::nanoseconds(1));
  EXPECT_NE(identity(), first);
  std::ofstream(path("b")) << "abc";
  std::filesystem::last_write_time(path("b"), changed);
  std::filesystem::rename(path("b"), path("a"));
  EXPECT_NE(identity(), first);
}

TEST_F(MappedFileTest, FollowsLinksAndNamesTheFileInErrors) {
  std::ofstream(path("target")) << "x";
  std::filesystem::create_symlink(path("target"), path("link"));
  ASSERT_TRUE(MappedFile::open(path("link")));
  EXPECT_EQ(MappedFile::open(path("none")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::open(dir_.string()).error().code, ErrorCode::kIo);
  EXPECT_NE(MappedFile::open(path("none")).error().message.find(path("none")), std::string::npos);
  std::ofstream(path("empty")).flush();
  ASSERT_TRUE(MappedFile::open(path("empty")));
  EXPECT_TRUE(MappedFile::open(path("empty"))->bytes().empty());
}

TEST_F(MappedFileTest, ReadsAheadWhatIsNotInMemory) {
  const std::vector<uint8_t> content(size_t{4} << 20, 1);
  ASSERT_TRUE(write_file_atomically(path("a"), content));
  const int file = ::open(path("a").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::fsync(file), 0);
  ASSERT_EQ(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
  ::close(file);
  const auto mapped = MappedFile::open(path("a"));
  ASSERT_TRUE(mapped);
  const uint8_t* place = mapped->bytes().data() + (2 << 20);
  const auto is_in_memory = [place] {
    unsigned char page = 0;
    EXPECT_EQ(::mincore(const_cast<uint8_t*>(place), 1, &page), 0);
    return (page & 1) != 0;
  };
  if (is_in_memory()) GTEST_SKIP() << "this file system keeps its pages in memory";
  read_ahead(place + 100, 300);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_in_memory() && std::chrono::steady_clock::now() < limit) ::usleep(1000);
  EXPECT_TRUE(is_in_memory());
}

TEST_F(MappedFileTest, WritingIntoNowhereFails) {
  EXPECT_EQ(write_file_atomically(path("none/a"), {}).error().code, ErrorCode::kNotFound);
}

TEST_F(MappedFileTest, ReplacesNothingButFiles) {
  std::filesystem::create_symlink("/dev/null", path("device"));
  EXPECT_EQ(write_file_atomically(path("device"), {}).error().code, ErrorCode::kIo);
  EXPECT_EQ(write_file_atomically(dir_.string(), {}).error().code, ErrorCode::kIo);
  EXPECT_TRUE(std::filesystem::is_symlink(path("device")));
}

TEST_F(MappedFileTest, IsLetGoAndMappedAgainIfItIsTheSame) {
  const std::string path = (dir_ / "again").string();
  std::ofstream(path) << "content";
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  const uint8_t* const at = file->bytes().data();
  ASSERT_TRUE(file->let_go());
  std::filesystem::rename(path, path + ".moved");
  EXPECT_EQ(file->map_again().error().code, ErrorCode::kNotFound);
  std::ofstream(path) << "content";  // another inode
  EXPECT_EQ(file->map_again().error().code, ErrorCode::kCorruptData);
  std::filesystem::rename(path + ".moved", path);
  const auto again = file->map_again();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(file->bytes().data(), at);
  EXPECT_EQ(std::string(file->bytes().begin(), file->bytes().end()), "content");
}

}  // namespace
}  // namespace stoker
