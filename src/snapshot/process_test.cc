// Several processes at one store: those that make the same object, and those that are killed while
// they do, at every call of the system that they make.
#include <gmock/gmock.h>
#include <sys/ptrace.h>

#include <csignal>
#include <optional>

#include "snapshot/store_fixture.h"

namespace stoker::snapshot {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The way to have an object that store.h describes. Codes of a child.
enum HowMade { kFoundIt = 10, kMadeIt = 11, kFailed = 12 };

HowMade have_object(const std::string& dir, const Digest& key, const WaitSink& wait) {
  auto store = Store::open(dir);
  if (!store) return kFailed;
  const auto lock = store->lock("weights.0", key, wait);
  if (!lock) return kFailed;
  const Found found = store->find("weights.0", key);
  if (found.section && store->map(*found.section)) return kFoundIt;
  auto writer = store->create("weights.0", 1000);
  if (!writer || !writer->write(0, made_bytes(1000, 1))) return kFailed;
  return writer->publish(key, 1) ? kMadeIt : kFailed;
}

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_), 0); }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void tell() { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
  void await() {
    char byte = 0;
    EXPECT_EQ(::read(ends_[0], &byte, 1), 1);
  }

 private:
  int ends_[2] = {-1, -1};
};

class Processes : public StoreTest {
 protected:
  std::string store_dir() const { return (dir_ / "store").string(); }
};

TEST_F(Processes, OneOfManyMakesTheObject) {
  constexpr int kNumChildren = 6;
  std::vector<pid_t> children;
  for (int i = 0; i < kNumChildren; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(have_object(store_dir(), key_, {}));
    children.push_back(child);
  }
  int num_made = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_NE(WEXITSTATUS(status), kFailed);
    if (WEXITSTATUS(status) == kMadeIt) ++num_made;
  }
  EXPECT_EQ(num_made, 1);
  EXPECT_THAT(names_in(tmp()), IsEmpty()) << "no lock stays";
}

TEST_F(Processes, TheSecondIsToldWhyItWaitsAndThenFindsTheObject) {
  Pipe has_lock;
  Pipe is_waited_for;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto store = Store::open(store_dir());
    {
      const auto lock = store->lock("weights.0", key_);
      has_lock.tell();
      is_waited_for.await();
      auto writer = store->create("weights.0", 1000);
      (void)writer->write(0, made_bytes(1000, 1));
      (void)writer->publish(key_, 1);
    }
    ::_exit(0);
  }
  has_lock.await();
  std::string why;
  const HowMade how = have_object(store_dir(), key_, [&](const std::string& reason) {
    if (why.empty()) is_waited_for.tell();
    why = reason;
    return true;
  });
  EXPECT_EQ(how, kFoundIt);
  EXPECT_THAT(why, HasSubstr("process " + std::to_string(child) + ", which makes weights.0-"));
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}

TEST_F(Processes, WhoWaitsCanGiveUp) {
  const Store store = open_store();
  auto lock = store.lock("weights.0", key_);
  ASSERT_TRUE(lock);
  EXPECT_TRUE(store.lock("weights.0", digest_of("another key")));
  EXPECT_TRUE(store.lock("weights.1", key_));
  const auto second = store.lock("weights.0", key_, [](const std::string&) { return false; });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(store.remove_leftovers(), 0);
  { const auto given_back = std::move(*lock); }
  EXPECT_TRUE(store.lock("weights.0", key_));
}

// The one that waits has the file of the lock open that was given back, and must not hold that.
TEST_F(Processes, ALockThatWasGivenBackAndRemovedIsNoLock) {
  const Store store = open_store();
  auto first = store.lock("weights.0", key_);
  ASSERT_TRUE(first);
  std::optional<KeyLock> held(*std::move(first));
  const auto second = store.lock("weights.0", key_, [&](const std::string&) {
    held.reset();
    return true;
  });
  ASSERT_TRUE(second);
  const auto third = store.lock("weights.0", key_, [](const std::string&) { return false; });
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kCancelled);
}

TEST_F(Processes, TheLockOfAKilledProcessIsFree) {
  Pipe has_lock;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto store = Store::open(store_dir());
    const auto lock = store->lock("weights.0", key_);
    has_lock.tell();
    while (true) ::pause();
  }
  has_lock.await();
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_THAT(names_in(tmp()), testing::SizeIs(1));
  const Store store = open_store();
  EXPECT_EQ(store.remove_leftovers(), 0) << "a lock is no work";
  EXPECT_THAT(names_in(tmp()), IsEmpty());
}

constexpr int kWasKilled = -1;
constexpr int kCannotTrace = -2;
constexpr int kMaxStops = 10'000;  // some hundreds are needed

// Runs body() in a child that stops before and after each of its calls of the system, and kills it
// at the stop of this number. Returns kWasKilled, kCannotTrace, or the exit code of a child that
// ended before.
template <class Body>
int kill_at_stop(int stop_idx, const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kChildSkips);
    ::raise(SIGSTOP);
    ::_exit(body());
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
    return kCannotTrace;
  }
  for (int i = 0; i < stop_idx; ++i) {
    if (::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) != 0) break;
    if (::waitpid(child, &status, 0) != child) break;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return kWasKilled;
}

// What the store holds after a kill, and that the next process has the object. Returns whether it
// was there already.
bool is_whole_or_absent(const std::string& dir, const Digest& key) {
  const auto store = Store::open(dir);
  if (!store) return false;
  const Found found = store->find("weights.0", key);
  if (found.section) {
    const auto object = store->map(*found.section);
    EXPECT_TRUE(object && object->verify(1));
  } else {
    EXPECT_THAT(found.reason, HasSubstr("No such file"));
  }
  store->remove_leftovers();
  EXPECT_THAT(std::filesystem::is_empty(dir + "/tmp"), true);
  EXPECT_EQ(have_object(dir, key, {}), found.section ? kFoundIt : kMadeIt);
  return found.section.has_value();
}

TEST_F(Processes, KilledAtAnyInstantTheStoreHoldsAllOrNothing) {
  int num_found = 0;
  for (int stop_idx = 1; true; ++stop_idx) {
    SCOPED_TRACE("killed at stop " + std::to_string(stop_idx));
    ASSERT_LT(stop_idx, kMaxStops);
    std::filesystem::remove_all(store_dir());
    const int code = kill_at_stop(stop_idx, [&] { return have_object(store_dir(), key_, {}); });
    if (code == kCannotTrace) GTEST_SKIP() << "SKIP: children cannot be traced here";
    const bool is_found = is_whole_or_absent(store_dir(), key_);
    ASSERT_FALSE(HasFailure());
    num_found += is_found ? 1 : 0;
    if (code == kWasKilled) continue;
    EXPECT_EQ(code, kMadeIt);
    EXPECT_GT(stop_idx, 100) << "the stops are those of the work";
    break;
  }
  EXPECT_GT(num_found, 2) << "some are killed after the key is in its place";
}

TEST_F(Processes, KilledWhileItCleansUpTheRestCanBeRemoved) {
  const Store store = open_store();
  const auto abandon = [&] {
    const auto writer = store.create("weights.0", 1000);
    return writer && writer->write(0, made_bytes(1000, 1)) ? kMadeIt : kFailed;
  };
  for (int stop_idx = 1; true; ++stop_idx) {
    SCOPED_TRACE("killed at stop " + std::to_string(stop_idx));
    ASSERT_LT(stop_idx, kMaxStops);
    const int code = kill_at_stop(stop_idx, abandon);
    if (code == kCannotTrace) GTEST_SKIP() << "SKIP: children cannot be traced here";
    store.remove_leftovers();
    ASSERT_THAT(names_in(tmp()), IsEmpty());
    if (code == kWasKilled) continue;
    EXPECT_EQ(code, kMadeIt);
    break;
  }
}

}  // namespace
}  // namespace stoker::snapshot
