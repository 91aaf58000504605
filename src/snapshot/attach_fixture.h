// What the tests share that bring objects into memory: an object on a disk, evicting and damaging
// it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "snapshot/attach.h"
#include "snapshot/store_fixture.h"

namespace stoker::snapshot {

/// On a disk, for what is in memory cannot be evicted.
class AttachTest : public StoreTest {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "stoker_attach_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir_ = name;
  }

  void make(int64_t bytes) {
    bytes_ = made_bytes(bytes, 1);
    section_ = put(open_store(), key_, bytes_);
  }

  std::filesystem::path object_path() const { return objects() / section_.object(); }

  /// Whether nothing of the object is in the page cache after that.
  bool evict() const {
    const Descriptor file(::open(object_path().c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::fsync(file.get()), 0);
    EXPECT_EQ(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    return num_cached_pages() == 0;
  }

  void flip(int64_t offset) const {
    ASSERT_EQ(::chmod(object_path().c_str(), 0600), 0);
    std::fstream file(object_path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(offset);
    file.put(static_cast<char>(bytes_[static_cast<size_t>(offset)] ^ 1));
    file.close();
    ASSERT_EQ(::chmod(object_path().c_str(), 0400), 0);
  }

  /// Pages of the object that are in the page cache.
  int64_t num_cached_pages() const {
    const Descriptor file(::open(object_path().c_str(), O_RDONLY | O_CLOEXEC));
    const auto mapping = ObjectMapping::map(file.get(), section_.bytes, "object");
    std::vector<unsigned char> pages(static_cast<size_t>((section_.bytes + 4095) / 4096));
    auto* const data = const_cast<uint8_t*>(mapping->bytes().data());
    EXPECT_EQ(::mincore(data, static_cast<size_t>(section_.bytes), pages.data()), 0);
    return std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; });
  }

  Result<Attached> attached(AttachChoice choice, int num_threads = 2) const {
    AttachOptions options;
    options.choice = choice;
    options.num_threads = num_threads;
    return attach(open_store(), section_, options);
  }

  bool has_bytes(const Object& object) const {
    return std::ranges::equal(object.bytes(), bytes_) &&
           reinterpret_cast<uintptr_t>(object.bytes().data()) % kLargePageBytes == 0;
  }

  std::vector<uint8_t> bytes_;
  Section section_;
};

}  // namespace stoker::snapshot
