// The store on a full disk and on one that cannot be written: on file systems of its own, mounted
// for a child process alone; and as a user whom the modes of folders stop.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "snapshot/store_fixture.h"

namespace stoker::snapshot {
namespace {

class StoreFaults : public StoreTest {
 protected:
  // Runs body() in a child with its own mounts; skips the test where that cannot be.
  template <class Body>
  void in_own_mounts(const Body& body) {
    const int code = run_in_child([&] { return has_own_mounts() ? body() : kChildSkips; });
    if (code == kChildSkips) GTEST_SKIP() << "SKIP: no mount namespace can be made here";
    EXPECT_EQ(code, 0);
  }

  // What who cannot write may do, and what not. Returns the exit code of a child.
  int check_read_only(const Section& section) const {
    const auto store = Store::open((dir_ / "store").string());
    EXPECT_IN_CHILD(store);
    EXPECT_IN_CHILD(!store->writable());
    const Found found = store->find("weights.0", key_);
    EXPECT_IN_CHILD(found.section == section);
    const auto object = store->map(section);
    EXPECT_IN_CHILD(object && object->verify(1));
    const auto writer = store->create("weights.0", 1);
    EXPECT_IN_CHILD(!writer && writer.error().code == ErrorCode::kIo);
    EXPECT_IN_CHILD(writer.error().message.find("store that can be written") != std::string::npos);
    EXPECT_IN_CHILD(!store->lock("weights.0", key_));
    EXPECT_IN_CHILD(!store->remove(section));
    EXPECT_IN_CHILD(store->remove_leftovers() == 0);
    return 0;
  }
};

TEST_F(StoreFaults, AReadOnlyMountIsGoodForReading) {
  const Section section = put(open_store(), key_, made_bytes(kTestBytes, 1));
  in_own_mounts([&] {
    const std::string dir = dir_.string();
    if (::mount(dir.c_str(), dir.c_str(), nullptr, MS_BIND, nullptr) != 0) return kChildSkips;
    const int flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
    if (::mount(nullptr, dir.c_str(), nullptr, flags, nullptr) != 0) return kChildSkips;
    const auto fresh = Store::open((dir_ / "other").string());
    EXPECT_IN_CHILD(!fresh);
    return check_read_only(section);
  });
}

TEST_F(StoreFaults, FoldersWithoutWriteRightAreGoodForReading) {
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::chmod(dir_.c_str(), 0777), 0);
  const int code = run_in_child([&] {
    if (::geteuid() == 0 && ::seteuid(kNobody) != 0) return kChildSkips;
    const auto store = Store::open((dir_ / "store").string());
    EXPECT_IN_CHILD(store && store->writable());
    const Section section = put(*store, key_, made_bytes(kTestBytes, 1));
    for (const char* const part : {"objects", "keys", "tmp", ""}) {
      EXPECT_IN_CHILD(::chmod((dir_ / "store" / part).c_str(), 0500) == 0);
    }
    const int checked = check_read_only(section);
    for (const char* const part : {"", "objects", "keys", "tmp"}) {
      EXPECT_IN_CHILD(::chmod((dir_ / "store" / part).c_str(), 0700) == 0);
    }
    return checked;
  });
  if (code == kChildSkips) GTEST_SKIP() << "SKIP: cannot become another user";
  EXPECT_EQ(code, 0);
}

TEST_F(StoreFaults, AFullDiskIsToldBeforeTheWork) {
  in_own_mounts([&] {
    const std::string dir = dir_.string();
    if (::mount("none", dir.c_str(), "tmpfs", 0, "size=8m") != 0) return kChildSkips;
    const auto store = Store::open((dir_ / "store").string());
    EXPECT_IN_CHILD(store);
    const auto large = store->create("weights.0", 9 << 20);
    EXPECT_IN_CHILD(!large && large.error().code == ErrorCode::kResourceExhausted);
    EXPECT_IN_CHILD(large.error().message.find("expected 9437208 bytes") != std::string::npos);

    // What one writer has reserved, another cannot have.
    const auto first = store->create("weights.0", 5 << 20);
    EXPECT_IN_CHILD(first);
    const auto second = store->create("weights.0", 5 << 20);
    EXPECT_IN_CHILD(!second && second.error().code == ErrorCode::kResourceExhausted);
    EXPECT_IN_CHILD(names_in(tmp()).size() == 1);
    return 0;
  });
}

// What the disk's free space does not tell: a limit of this process, or a quota.
TEST_F(StoreFaults, SpaceThatCannotBeReservedIsToldBeforeTheWork) {
  const int code = run_in_child([&] {
    const auto store = Store::open((dir_ / "store").string());
    const rlimit limit{1 << 20, 1 << 20};
    ::signal(SIGXFSZ, SIG_IGN);
    EXPECT_IN_CHILD(store && ::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    const auto writer = store->create("weights.0", 2 << 20);
    EXPECT_IN_CHILD(!writer && writer.error().code == ErrorCode::kIo);
    EXPECT_IN_CHILD(writer.error().message.find("room for 2097152 bytes") != std::string::npos);
    EXPECT_IN_CHILD(names_in(tmp()).empty());
    EXPECT_IN_CHILD(store->create("weights.0", 1 << 20));
    return 0;
  });
  EXPECT_EQ(code, 0);
}

// The space is there when it is asked for, and gone when the table and the key want theirs.
TEST_F(StoreFaults, ADiskThatFillsUpLeavesNothingThatIsFound) {
  in_own_mounts([&] {
    const std::string dir = dir_.string();
    if (::mount("none", dir.c_str(), "tmpfs", 0, "size=8m") != 0) return kChildSkips;
    const auto store = Store::open((dir_ / "store").string());
    EXPECT_IN_CHILD(store);
    {
      auto writer = store->create("weights.0", 5 << 20);
      EXPECT_IN_CHILD(writer && writer->write(0, made_bytes(5 << 20, 1)));
      std::ofstream filler(dir_ / "filler", std::ios::binary);
      const std::string block(4096, 'x');
      while (filler.write(block.data(), 4096).flush()) {
      }
      const auto section = writer->publish(key_, 1);
      EXPECT_IN_CHILD(!section && section.error().code == ErrorCode::kResourceExhausted);
    }
    EXPECT_IN_CHILD(!store->find("weights.0", key_).section);
    EXPECT_IN_CHILD(names_in(objects()).empty() && names_in(tmp()).empty());
    std::filesystem::remove(dir_ / "filler");
    EXPECT_IN_CHILD(store->map(put(*store, key_, made_bytes(5 << 20, 1))));
    return 0;
  });
}

}  // namespace
}  // namespace stoker::snapshot
