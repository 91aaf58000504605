#include "snapshot/pin.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "snapshot/pinning_child.h"

namespace stoker::snapshot {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr uid_t kNobodysId = 65534;

class PinTest : public AttachTest {
 protected:
  void SetUp() override {
    AttachTest::SetUp();
    make(kTestBytes);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (::geteuid() != 0 && limit.rlim_cur < static_cast<rlim_t>(kTestBytes) + 4096) {
      GTEST_SKIP() << "SKIP: this user may not lock 8 MiB in memory";
    }
  }

  std::filesystem::path use() const { return dir_ / "store" / "use"; }

  Result<Pinned> pinned() const { return pin_objects(open_store(), {section_}, 2); }

  AttachReport inherited(AttachChoice choice = AttachChoice::kMeasured) const {
    AttachOptions options;
    options.verify = AttachVerify::kInherited;
    options.choice = choice;
    auto got = attach(open_store(), section_, options);
    EXPECT_TRUE(got) << got.error().message;
    if (!got) return {};
    EXPECT_TRUE(has_bytes(got->object));
    return std::move(got->report);
  }

  std::filesystem::path mark_path() const {
    for (const std::string& name : names_in(use())) {
      if (name.starts_with("pin-")) return use() / name;
    }
    ADD_FAILURE() << "no file of a pinner";
    return {};
  }
};

// What /proc/self/status says of memory that is locked.
int64_t locked_bytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  long long kib = 0;
  while (std::getline(status, line) && std::sscanf(line.c_str(), "VmLck: %lld", &kib) != 1) {
  }
  return kib << 10;
}

TEST_F(PinTest, WhatIsPinnedIsLockedAndStaysWhateverIsEvicted) {
  ASSERT_TRUE(evict());
  double last = 0;
  const auto pin = pin_objects(open_store(), {section_}, 2, [&](double part) { last = part; });
  ASSERT_TRUE(pin) << pin.error().message;
  EXPECT_GT(last, 0);
  EXPECT_LE(last, 1);
  EXPECT_EQ(pin->bytes(), kTestBytes);
  EXPECT_TRUE(has_bytes(pin->objects()[0].object));
  EXPECT_GE(locked_bytes(), kTestBytes);
  EXPECT_FALSE(evict());
  EXPECT_EQ(num_cached_pages(), (kTestBytes + 4095) / 4096);
}

TEST_F(PinTest, ItsVerificationIsInheritedAsLongAsItRuns) {
  EXPECT_THAT(inherited().not_inherited, HasSubstr("nobody"));
  PinningChild child([&] { return pinned(); });
  EXPECT_THAT(mark_path().filename().string(), StartsWith("pin-" + section_.object() + "."));
  const AttachReport report = inherited();
  EXPECT_EQ(report.inherited_from, child.pid()) << report.not_inherited;
  EXPECT_FALSE(report.is_verified);
  EXPECT_EQ(report.verify_s, 0);
  EXPECT_THAT(report.why, HasSubstr(std::to_string(child.pid())));

  EXPECT_EQ(child.end(SIGTERM), 0);
  EXPECT_THAT(names_in(use()), IsEmpty());
  EXPECT_TRUE(inherited().is_verified);
}

TEST_F(PinTest, APinnerThatWasKilledIsNotBelieved) {
  PinningChild child([&] { return pinned(); });
  EXPECT_EQ(child.end(SIGKILL), -SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(mark_path()));
  const AttachReport report = inherited();
  EXPECT_TRUE(report.is_verified);
  EXPECT_EQ(report.inherited_from, 0);
  EXPECT_THAT(report.not_inherited, HasSubstr("has ended"));
  (void)open_store().remove_leftovers();
  EXPECT_THAT(names_in(use()), IsEmpty());
}

TEST_F(PinTest, TheFileOfAPinnerThatRunsIsNotCleanedAway) {
  PinningChild child([&] { return pinned(); });
  (void)open_store().remove_leftovers();
  EXPECT_EQ(inherited().inherited_from, child.pid());
}

TEST_F(PinTest, SeveralCanPinTheSame) {
  PinningChild first([&] { return pinned(); });
  PinningChild second([&] { return pinned(); });
  EXPECT_EQ(first.end(SIGTERM), 0);
  EXPECT_EQ(inherited().inherited_from, second.pid());
}

TEST_F(PinTest, AnotherFileOfThatNameIsVerified) {
  PinningChild child([&] { return pinned(); });
  std::filesystem::copy_file(object_path(), dir_ / "copy");
  std::filesystem::rename(dir_ / "copy", object_path());
  const AttachReport report = inherited();
  EXPECT_TRUE(report.is_verified);
  EXPECT_THAT(report.not_inherited, HasSubstr("another file"));
}

TEST_F(PinTest, AFileThatWasWrittenSinceIsVerified) {
  PinningChild child([&] { return pinned(); });
  flip(kChunkBytes + 5);
  AttachOptions options;
  options.verify = AttachVerify::kInherited;
  const auto got = attach(open_store(), section_, options);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kCorruptData);
  EXPECT_THAT(got.error().message, HasSubstr("chunk 1,"));
}

TEST_F(PinTest, DirectReadsAreVerified) {
  PinningChild child([&] { return pinned(); });
  AttachOptions options;
  options.verify = AttachVerify::kInherited;
  options.choice = AttachChoice::kDirect;
  const auto got = attach(open_store(), section_, options);
  if (!got && got.error().code == ErrorCode::kUnsupported) {
    GTEST_SKIP() << "SKIP: no direct reads of this file system";
  }
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->report.is_verified);
}

TEST_F(PinTest, DamagedObjectsAreNotPinned) {
  flip(2 * kChunkBytes);
  const auto pin = pinned();
  ASSERT_FALSE(pin);
  EXPECT_EQ(pin.error().code, ErrorCode::kCorruptData);
  EXPECT_THAT(names_in(use()), IsEmpty());
}

TEST_F(PinTest, AFileThatChangesMeanwhileIsNotPinned) {
  const auto pin = pin_objects(open_store(), {section_}, 1, [&](double /*fraction*/) {
    ASSERT_EQ(::chmod(object_path().c_str(), 0600), 0);
  });
  ASSERT_FALSE(pin);
  EXPECT_THAT(pin.error().message, HasSubstr("changed while it was pinned"));
}

// Whoever can make a file there could say anything, if it was believed.
TEST_F(PinTest, WordOfOthersIsNotBelieved) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIP: only root can give a file away";
  PinningChild child([&] { return pinned(); });
  ASSERT_EQ(::chown(mark_path().c_str(), 12345, 0), 0);
  EXPECT_THAT(inherited().not_inherited, HasSubstr("user 12345"));
  ASSERT_EQ(::chown(mark_path().c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod(mark_path().c_str(), 0666), 0);
  EXPECT_THAT(inherited().not_inherited, HasSubstr("0666"));
  ASSERT_EQ(::chmod(mark_path().c_str(), 0600), 0);
  EXPECT_EQ(inherited().inherited_from, child.pid());
}

TEST_F(PinTest, AChangedOrCutWordIsNotBelieved) {
  PinningChild child([&] { return pinned(); });
  const std::string text = text_in(mark_path());
  for (size_t i = 0; i < text.size(); i += 7) {
    std::string spoiled = text;
    spoiled[i] ^= 4;
    std::ofstream(mark_path()) << spoiled;
    EXPECT_TRUE(inherited().is_verified) << i;
    std::ofstream(mark_path()) << text.substr(0, i);
    EXPECT_TRUE(inherited().is_verified) << i;
  }
  std::ofstream(mark_path()) << text;
  EXPECT_EQ(inherited().inherited_from, child.pid());
}

// A limit of locked memory is for who has no privilege.
TEST_F(PinTest, TheLimitOfLockedMemoryIsToldWithBothNumbers) {
  ASSERT_EQ(::chmod(dir_.c_str(), 0777), 0);
  const int code = run_in_child([&] {
    if (::geteuid() == 0 && ::seteuid(kNobodysId) != 0) return kChildSkips;
    const auto store = Store::open((dir_ / "nobodys").string());
    EXPECT_IN_CHILD(store);
    const Section section = put(*store, key_, bytes_);
    for (const rlim_t most : {rlim_t{1 << 20}, rlim_t{0}}) {
      const rlimit limit{most, most};
      EXPECT_IN_CHILD(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
      const auto pin = pin_objects(*store, {section}, 1);
      EXPECT_IN_CHILD(!pin && pin.error().code == ErrorCode::kResourceExhausted);
      for (const std::string& told :
           {std::to_string(kTestBytes) + " bytes", "limit of " + std::to_string(most),
            std::string("RLIMIT_MEMLOCK"), std::string("ulimit -l")}) {
        EXPECT_IN_CHILD(pin.error().message.find(told) != std::string::npos);
      }
    }
    return 0;
  });
  if (code == kChildSkips) GTEST_SKIP() << "SKIP: cannot become another user";
  EXPECT_EQ(code, 0);
}

TEST_F(PinTest, WhatNoMemoryHoldsIsToldAtOnce) {
  Section large = section_;
  large.bytes = kMaxObjectBytes;
  const auto pin = pin_objects(open_store(), {large}, 1);
  ASSERT_FALSE(pin);
  EXPECT_EQ(pin.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(pin.error().message, HasSubstr(std::to_string(kMaxObjectBytes)));
}

// A read-only store: word is left where processes of this user look.
TEST_F(PinTest, AStoreThatCannotBeWrittenHasItsWordElsewhere) {
  const std::filesystem::path runtime = dir_ / "runtime";
  std::filesystem::create_directory(runtime);
  ASSERT_EQ(::chmod(runtime.c_str(), 0700), 0);
  const int code = run_in_child([&] {
    const std::string dir = dir_.string() + "/store";
    if (!has_own_mounts()) return kChildSkips;
    if (::mount(dir.c_str(), dir.c_str(), nullptr, MS_BIND, nullptr) != 0) return kChildSkips;
    const int flags = MS_BIND | MS_REMOUNT | MS_RDONLY;
    if (::mount(nullptr, dir.c_str(), nullptr, flags, nullptr) != 0) return kChildSkips;
    ::unsetenv("XDG_RUNTIME_DIR");
    const auto nowhere = pinned();
    EXPECT_IN_CHILD(!nowhere);
    EXPECT_IN_CHILD(nowhere.error().message.find("XDG_RUNTIME_DIR") != std::string::npos);
    ::setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
    const auto pin = pinned();
    EXPECT_IN_CHILD(pin);
    EXPECT_IN_CHILD(names_in(use()).empty());
    EXPECT_IN_CHILD(names_in(runtime / "stoker").size() == 1);
    EXPECT_IN_CHILD(inherited().inherited_from == ::getpid());
    return 0;
  });
  if (code == kChildSkips) GTEST_SKIP() << "SKIP: no mount namespace can be made here";
  EXPECT_EQ(code, 0);
}

TEST(PinRecordText, IsReadAsItWasWrittenAndNotOtherwise) {
  PinRecord record;
  record.object = "weights.0-" + digest_of("x").hex();
  record.pid = 12;
  record.host = digest_of("host");
  record.device = 65;
  record.inode = 77;
  record.changed_ns = 123'456;
  const std::string text = pin_record_text(record);
  const auto read = parse_pin_record(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, record);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string spoiled = text;
    spoiled[i] ^= 1;
    EXPECT_FALSE(parse_pin_record(spoiled)) << i;
    EXPECT_FALSE(parse_pin_record(text.substr(0, i))) << i;
  }
  record.object = "../x-" + digest_of("x").hex();
  EXPECT_FALSE(parse_pin_record(pin_record_text(record)));
  record.object = "x-" + digest_of("x").hex();
  record.pid = 0;
  EXPECT_FALSE(parse_pin_record(pin_record_text(record)));
}

}  // namespace
}  // namespace stoker::snapshot
