#include "snapshot/sealed.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <thread>

#include "snapshot/pinning_child.h"

namespace stoker::snapshot {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uid_t kAnotherUser = 65534;

Descriptor memory_with_seals(int64_t bytes, int seals) {
  Descriptor fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), bytes), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

constexpr int kEverySeal = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

int64_t num_open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

// Connects to a socket, or binds one, whatever the length of its path.
Descriptor at_socket(const std::filesystem::path& path, int flags,
                     int (*call)(int, const sockaddr*, socklen_t), int& result) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  const Descriptor folder(::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string name =
      "/proc/self/fd/" + std::to_string(folder.get()) + "/" + path.filename().string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, name.c_str(), sizeof address.sun_path - 1);
  result = call(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  return socket;
}

class SealedTest : public AttachTest {
 protected:
  void SetUp() override {
    AttachTest::SetUp();
    make(kTestBytes);
  }

  std::filesystem::path use() const { return dir_ / "store" / "use"; }

  Result<Pinned> pinned() const { return pin_sealed(open_store(), {section_}, 2); }

  Result<std::optional<FromPinner>> given() const { return from_pinner(open_store(), section_); }

  std::string answer() const {
    std::string text("stokseal");
    append_le(text, int64_t{1});
    append_le(text, section_.bytes);
    return text + std::string(reinterpret_cast<const char*>(section_.digest.bytes.data()), 16);
  }

  std::filesystem::path socket_path() const {
    return use() / ("sealed-" + section_.digest.hex() + ".0123abcd");
  }

  // A socket in the place of a pinner's.
  Descriptor listening() const {
    ::unlink(socket_path().c_str());
    int bound = -1;
    Descriptor socket = at_socket(socket_path(), 0, ::bind, bound);
    EXPECT_EQ(bound, 0);
    EXPECT_EQ(::listen(socket.get(), 4), 0);
    return socket;
  }

  // What the receiver makes of one answer. The listener answers in a thread of its own.
  Result<std::optional<FromPinner>> given_for(const std::string& text,
                                              const std::vector<int>& fds) const {
    const Descriptor socket = listening();
    const std::jthread server([&] {
      pollfd waits{socket.get(), POLLIN, 0};
      if (::poll(&waits, 1, 5000) != 1) return;
      const Descriptor peer(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
      iovec part{const_cast<char*>(text.data()), text.size()};
      msghdr header{};
      header.msg_iov = &part;
      header.msg_iovlen = 1;
      if (!fds.empty()) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
        cmsghdr* const rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
        std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
      }
      (void)::sendmsg(peer.get(), &header, MSG_NOSIGNAL);
    });
    return given();
  }

  void expect_bad(const Result<std::optional<FromPinner>>& got, const std::string& why) const {
    ASSERT_FALSE(got) << why;
    EXPECT_EQ(got.error().code, ErrorCode::kCorruptData);
    EXPECT_THAT(got.error().message, HasSubstr(why));
  }
};

TEST_F(SealedTest, ASealedCopyCannotBeChanged) {
  auto file = open_store().open_object(section_);
  ASSERT_TRUE(file);
  double last = 0;
  const auto sealed = seal_object(*std::move(file), 2, [&](double part) { last = part; });
  ASSERT_TRUE(sealed) << sealed.error().message;
  EXPECT_GT(last, 0);
  const int fd = sealed->memory.get();
  EXPECT_EQ(::fcntl(fd, F_GET_SEALS) & kEverySeal, kEverySeal);
  EXPECT_EQ(::pwrite(fd, "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(fd, 0), -1);
  EXPECT_EQ(::ftruncate(fd, 2 * kTestBytes), -1);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_TRUE(has_bytes(sealed->attached.object));
  EXPECT_TRUE(sealed->attached.object.verify(2));
  EXPECT_EQ(sealed->attached.report.way, AttachWay::kSealed);
}

TEST_F(SealedTest, DamagedObjectsAreNotSealed) {
  flip(kChunkBytes);
  const auto pin = pinned();
  ASSERT_FALSE(pin);
  EXPECT_EQ(pin.error().code, ErrorCode::kCorruptData);
  EXPECT_THAT(pin.error().message, HasSubstr("chunk 1, bytes"));
  EXPECT_THAT(names_in(use()), IsEmpty());
}

TEST_F(SealedTest, WhatNoMemoryHoldsIsToldAtOnce) {
  section_.bytes = kMaxObjectBytes;
  const auto pin = pinned();
  ASSERT_FALSE(pin);
  EXPECT_EQ(pin.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(SealedTest, ItIsHandedOutAsLongAsItsPinnerRuns) {
  const auto none = given();
  ASSERT_TRUE(none && !*none);
  PinningChild child([&] { return pinned(); });
  // What happens to the file is nothing to the copy.
  flip(5);
  for (int i = 0; i < 3; ++i) {
    const auto got = given();
    ASSERT_TRUE(got && *got);
    EXPECT_TRUE(has_bytes((*got)->object));
    EXPECT_TRUE((*got)->object.verify(1));
    EXPECT_EQ((*got)->pid, child.pid());
  }
  AttachOptions options;
  options.verify = AttachVerify::kInherited;
  const auto attached = attach(open_store(), section_, options);
  ASSERT_TRUE(attached);
  EXPECT_EQ(attached->report.way, AttachWay::kSealed);
  EXPECT_EQ(attached->report.inherited_from, child.pid());
  EXPECT_FALSE(attached->report.is_verified);

  EXPECT_EQ(child.end(SIGTERM), 0);
  EXPECT_TRUE(has_bytes(attached->object)) << "it stays as long as it is mapped";
  EXPECT_THAT(names_in(use()), IsEmpty());
  const auto after = given();
  EXPECT_TRUE(after && !*after);
}

TEST_F(SealedTest, WithoutBeingAskedForItIsNotTaken) {
  PinningChild child([&] { return pinned(); });
  const auto full = attached(AttachChoice::kMeasured);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->report.way, AttachWay::kMapped);
  EXPECT_TRUE(full->report.is_verified);
}

TEST_F(SealedTest, ADeadPinnersSocketIsNoneAndIsCleanedAwayLater) {
  PinningChild child([&] { return pinned(); });
  EXPECT_EQ(child.end(SIGKILL), -SIGKILL);
  const auto got = given();
  EXPECT_TRUE(got && !*got);
  const auto names = names_in(use());
  ASSERT_THAT(names, testing::SizeIs(1));
  (void)open_store().remove_leftovers();
  EXPECT_THAT(names_in(use()), testing::SizeIs(1)) << "it is young";
  const timespec old[2] = {{1'000'000, 0}, {1'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (use() / names[0]).c_str(), old, AT_SYMLINK_NOFOLLOW), 0);
  (void)open_store().remove_leftovers();
  EXPECT_THAT(names_in(use()), IsEmpty());
}

TEST_F(SealedTest, TheSocketOfOneThatRunsIsNotCleanedAway) {
  PinningChild child([&] { return pinned(); });
  const timespec old[2] = {{1'000'000, 0}, {1'000'000, 0}};
  const std::string name = names_in(use())[0];
  ASSERT_EQ(::utimensat(AT_FDCWD, (use() / name).c_str(), old, AT_SYMLINK_NOFOLLOW), 0);
  (void)open_store().remove_leftovers();
  const auto got = given();
  EXPECT_TRUE(got && *got);
}

TEST_F(SealedTest, AnswersThatAreNotSealedAreRefused) {
  (void)open_store();
  const Descriptor good = memory_with_seals(kTestBytes, kEverySeal);
  const auto fits = given_for(answer(), {good.get()});
  ASSERT_TRUE(fits && *fits) << "or nothing here is tested";

  for (const int missing : {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE}) {
    const Descriptor memory = memory_with_seals(kTestBytes, kEverySeal & ~missing);
    expect_bad(given_for(answer(), {memory.get()}), "sealed against every change");
  }
  constexpr int kFutureWrite = 0x10;  // F_SEAL_FUTURE_WRITE: who has it mapped still writes
  const Descriptor future =
      memory_with_seals(kTestBytes, (kEverySeal & ~F_SEAL_WRITE) | kFutureWrite);
  expect_bad(given_for(answer(), {future.get()}), "sealed against every change");
  const Descriptor file(::open(object_path().c_str(), O_RDONLY | O_CLOEXEC));
  expect_bad(given_for(answer(), {file.get()}), "can be sealed");
}

TEST_F(SealedTest, AnswersOfAnotherSizeOrObjectAreRefused) {
  (void)open_store();
  for (const int64_t bytes : {int64_t{0}, kTestBytes - 1, kTestBytes + 1, 2 * kTestBytes}) {
    const Descriptor memory = memory_with_seals(bytes, kEverySeal);
    expect_bad(given_for(answer(), {memory.get()}), "found " + std::to_string(bytes));
  }
  const Descriptor good = memory_with_seals(kTestBytes, kEverySeal);
  for (size_t i = 0; i < answer().size(); ++i) {
    std::string spoiled = answer();
    spoiled[i] ^= 1;
    expect_bad(given_for(spoiled, {good.get()}), "answer for this object");
  }
  expect_bad(given_for(answer().substr(1), {good.get()}), "answer for this object");
  expect_bad(given_for(answer() + "x", {good.get()}), "answer for this object");
  expect_bad(given_for(answer(), {}), "found 0");
}

TEST_F(SealedTest, DescriptorsBeyondOneAreRefusedAndClosed) {
  (void)open_store();
  const Descriptor good = memory_with_seals(kTestBytes, kEverySeal);
  const int64_t before = num_open_descriptors();
  expect_bad(given_for(answer(), {good.get(), good.get()}), "found 2");
  expect_bad(given_for(answer(), std::vector<int>(16, good.get())), "one descriptor");
  EXPECT_EQ(num_open_descriptors(), before);
}

TEST_F(SealedTest, OneThatSaysNothingHoldsUpNobody) {
  (void)open_store();
  const Descriptor silent = listening();
  for (int i = 0; i < 2; ++i) {
    const auto start = std::chrono::steady_clock::now();
    AttachOptions options;
    options.verify = AttachVerify::kInherited;
    const auto got = attach(open_store(), section_, options);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
    ASSERT_TRUE(got);
    EXPECT_TRUE(got->report.is_verified);
  }
}

TEST_F(SealedTest, OneWhoseQueueIsFullHoldsUpNobody) {
  (void)open_store();
  const Descriptor silent = listening();
  std::vector<Descriptor> waiting;
  for (int i = 0; i < 8; ++i) {
    int connected = -1;
    waiting.push_back(at_socket(socket_path(), SOCK_NONBLOCK, ::connect, connected));
  }
  const auto start = std::chrono::steady_clock::now();
  const auto got = given();
  EXPECT_TRUE(got && !*got);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(400));
}

TEST_F(SealedTest, ThePinnerOutlivesThoseThatConnectAndVanish) {
  PinningChild child([&] { return pinned(); });
  const std::string name = names_in(use())[0];
  for (int i = 0; i < 200; ++i) {
    int connected = -1;
    (void)at_socket(use() / name, SOCK_NONBLOCK, ::connect, connected);
  }
  const auto got = given();
  EXPECT_TRUE(got && *got);
}

TEST_F(SealedTest, ThingsOfOthersInItsPlaceAreRefused) {
  (void)open_store();
  std::ofstream(socket_path()) << "x";
  expect_bad(given(), "expected a socket");
  std::filesystem::remove(socket_path());
  std::filesystem::create_symlink("/dev/null", socket_path());
  expect_bad(given(), "expected a socket");
  std::filesystem::remove(socket_path());
  if (::geteuid() != 0) GTEST_SKIP() << "SKIP: only root can give a file away";
  const Descriptor socket = listening();
  ASSERT_EQ(::lchown(socket_path().c_str(), 12345, 0), 0);
  expect_bad(given(), "expected a socket of this user");
}

// Its file is root's, the process behind it is not.
TEST_F(SealedTest, APinnerOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIP: only root can become another user";
  (void)open_store();
  const Descriptor socket = listening();
  const int code = run_in_child([&] {
    // Who listens last is the one that the system names.
    EXPECT_IN_CHILD(::seteuid(kAnotherUser) == 0 && ::listen(socket.get(), 4) == 0);
    return 0;
  });
  ASSERT_EQ(code, 0);
  expect_bad(given(), "expected a pinner of this user or root");
}

TEST_F(SealedTest, AnotherUserIsGivenNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIP: only root can become another user";
  PinningChild child([&] { return pinned(); });
  const std::string name = names_in(use())[0];
  ASSERT_EQ(::chmod((use() / name).c_str(), 0666), 0);
  for (const auto& folder : {dir_, dir_ / "store", use()}) {
    ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  }
  const auto bytes_given = [&](uid_t user) {
    return run_in_child([&] {
      if (user != 0 && ::seteuid(user) != 0) return 99;
      int connected = -1;
      const Descriptor socket = at_socket(use() / name, 0, ::connect, connected);
      if (connected != 0) return 98;
      char text[64];
      return static_cast<int>(::recv(socket.get(), text, sizeof text, 0));
    });
  };
  EXPECT_EQ(bytes_given(0), 40);
  // Whose connection is closed, with or without a reset.
  EXPECT_THAT(bytes_given(kAnotherUser), AnyOf(0, 255));
}

}  // namespace
}  // namespace stoker::snapshot
