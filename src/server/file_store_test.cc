#include "server/file_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "server/batch_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FileStoreTest : public FolderTest {
 protected:
  void open(size_t max_files = 10) {
    store_.reset();
    folder_.reset();
    auto folder = StateFolder::open(path("state"));
    ASSERT_TRUE(folder) << folder.error().message;
    folder_ = std::make_unique<StateFolder>(*std::move(folder));
    auto store = FileStore::open(*folder_, {max_files, [this](LogLevel, std::string_view line) {
                                              log_.emplace_back(line);
                                            }});
    ASSERT_TRUE(store) << store.error().message;
    store_ = *std::move(store);
  }

  StoredFile upload(const std::string& content, const std::string& owner = "a") {
    auto draft = store_->begin_upload();
    EXPECT_TRUE(draft && draft->append(content));
    return store_->publish(*std::move(draft), {"", owner, "x\"/..", "batch", 0, 5}).value();
  }

  std::string content_of(const StoredFile& file) const {
    const auto opened = store_->open_content(file);
    if (!opened) return opened.error().message;
    std::string text(static_cast<size_t>(file.num_bytes), '\0');
    EXPECT_EQ(read_at(opened->get(), 0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}), 0);
    return text;
  }

  std::vector<std::string> names() const {
    auto found = folder_->files().names().value();
    std::sort(found.begin(), found.end());
    return found;
  }

  std::unique_ptr<StateFolder> folder_;
  std::unique_ptr<FileStore> store_;
  std::vector<std::string> log_;
};

TEST_F(FileStoreTest, FilesStayUntilTheyAreRemoved) {
  open();
  const StoredFile file = upload("content");
  EXPECT_EQ(
      stored_file_json(file),
      R"({"id":")" + file.id +
          R"(","object":"file","bytes":7,"created_at":5,"expires_at":null,)"
          R"("filename":"x\"/..","purpose":"batch","status":"processed","status_details":null})");
  open();
  const auto found = store_->find(file.id, "a");
  ASSERT_TRUE(found);
  EXPECT_EQ(stored_file_json(*found), stored_file_json(file));
  EXPECT_EQ(content_of(*found), "content");
  ASSERT_TRUE(store_->remove(*found));
  EXPECT_FALSE(store_->find(file.id, "a"));
  EXPECT_THAT(names(), ElementsAre("lock"));
}

TEST_F(FileStoreTest, OwnersSeeTheirOwnAlone) {
  open();
  const StoredFile file = upload("x", "a");
  upload("y", "..");
  open();
  EXPECT_TRUE(store_->find(file.id, "a"));
  EXPECT_FALSE(store_->find(file.id, "b"));
  EXPECT_FALSE(store_->find(file.id, ""));
  EXPECT_EQ(store_->list("a").size(), 1U);
  EXPECT_EQ(store_->list("..").size(), 1U);
  EXPECT_THAT(store_->list(""), IsEmpty());
}

TEST_F(FileStoreTest, TheFolderIsPrivateAndOfOneServer) {
  ASSERT_EQ(::mkdir(path("state").c_str(), 0755), 0);
  open();
  struct stat status {};
  ASSERT_EQ(::stat(path("state").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0700U);
  const auto second = StateFolder::open(path("state"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kOverloaded);
  EXPECT_THAT(second.error().message, testing::HasSubstr("no other server"));
}

TEST_F(FileStoreTest, WhatWasNotFinishedGoes) {
  open();
  const StoredFile kept = upload("kept");
  {
    auto draft = store_->begin_upload();
    ASSERT_TRUE(draft && draft->append("half"));
    EXPECT_EQ(names().size(), 4U);
  }
  EXPECT_EQ(names().size(), 3U);
  const std::string other = "state/file-00000000000000000000000000000001";
  write(other, "a content without a description");
  write(other + ".part", "an upload");
  write(other + ".a.json.tmp", "a description");
  write("state/notes.txt", "of somebody");
  open();
  EXPECT_THAT(names(), ElementsAre(kept.id, kept.id + ".a.json", "lock", "notes.txt"));
  EXPECT_EQ(content_of(*store_->find(kept.id, "a")), "kept");
}

TEST_F(FileStoreTest, DamagedDescriptionsAreLeftAlone) {
  open();
  const StoredFile file = upload("content");
  const StoredFile cut = upload("content");
  const std::string name = "state/" + file.id + ".a.json";
  std::filesystem::remove(path(name));
  write(name, "{\"id\":");
  std::filesystem::resize_file(path("state/" + cut.id), 3);
  open();
  EXPECT_FALSE(store_->find(file.id, "a"));
  EXPECT_EQ(log_.size(), 1U);
  EXPECT_EQ(read("state/" + file.id), "content");
  EXPECT_EQ(store_->open_content(*store_->find(cut.id, "a")).error().code, ErrorCode::kCorruptData);
}

TEST_F(FileStoreTest, ThereIsAnEnd) {
  open(1);
  const StoredFile file = upload("x");
  EXPECT_EQ(store_->begin_upload().error().code, ErrorCode::kOverloaded);
  ASSERT_TRUE(store_->remove(file));
  upload("y");
}

TEST(StoredIds, HaveOneShape) {
  const std::string digits(32, 'a');
  EXPECT_TRUE(is_stored_id("file-" + digits, kFilePrefix));
  for (const std::string& wrong :
       {std::string("file-"), "file-" + digits + "a", "file-" + std::string(32, 'A'),
        "batch_" + digits, std::string("file-../../../../../../../../etc/pass"), digits,
        std::string()})
    EXPECT_FALSE(is_stored_id(wrong, kFilePrefix)) << wrong;
  const auto name = parse_description_name("file-" + digits + ".team.a.json", kFilePrefix);
  ASSERT_TRUE(name);
  EXPECT_EQ(name->owner, "team.a");
  EXPECT_EQ(description_name(name->id, name->owner), "file-" + digits + ".team.a.json");
  EXPECT_EQ(parse_description_name("file-" + digits + "..json", kFilePrefix)->owner, "");
  for (const std::string& wrong : {"file-" + digits, "file-" + digits + ".json",
                                   "file-" + digits + "x.a.json", "file-" + digits + ".a.json.tmp"})
    EXPECT_FALSE(parse_description_name(wrong, kFilePrefix)) << wrong;
}

}  // namespace
}  // namespace stoker
