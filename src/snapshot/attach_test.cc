#include "snapshot/attach.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>

#include "snapshot/attach_fixture.h"

namespace stoker::snapshot {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// More than is measured, so that something is left to be brought by the way that was chosen.
constexpr int64_t kLargeBytes = 34 * kChunkBytes + 777;

// From now on the calls of this number whose argument has one of these bits fail in this process
// and its threads. False where the system does not allow it.
bool fail_calls(long number, int argument, uint32_t bits, int code) {
  const auto field = static_cast<uint32_t>(offsetof(seccomp_data, args) + 8U * argument);
  const auto value = static_cast<uint32_t>(code);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, field),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | value),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof filter / sizeof filter[0], filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// MADV_POPULATE_READ and _WRITE are 22 and 23, no other advice that is used here has this bit.
constexpr uint32_t kPopulateBit = 16;

TEST_F(AttachTest, TheBytesAreTheSameWhicheverWay) {
  make(kTestBytes);
  for (const AttachChoice choice :
       {AttachChoice::kMapped, AttachChoice::kDirect, AttachChoice::kMeasured}) {
    for (const int num_threads : {1, 5}) {
      const auto got = attached(choice, num_threads);
      if (!got && got.error().code == ErrorCode::kUnsupported) continue;
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_TRUE(has_bytes(got->object));
      EXPECT_TRUE(got->object.verify(2));
      const auto way = choice == AttachChoice::kDirect ? AttachWay::kDirect : AttachWay::kMapped;
      EXPECT_EQ(got->report.way, way) << name_of(got->report.way);
      EXPECT_EQ(got->report.bytes, kTestBytes);
      EXPECT_GT(got->report.populate_s, 0);
      EXPECT_GT(got->report.verify_s, 0);
      EXPECT_EQ(got->report.mapped_bytes_per_s, 0) << "what is cached, or asked for, is measured";
    }
  }
}

TEST_F(AttachTest, WithoutVerifyingItIsAllThereAndNotLookedAt) {
  make(kTestBytes);
  flip(5);
  AttachOptions options;
  options.verify = AttachVerify::kLater;
  double last = 0;
  options.progress = [&](double fraction) { last = fraction; };
  const auto got = attach(open_store(), section_, options);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->report.verify_s, 0);
  EXPECT_FALSE(got->report.is_verified);
  EXPECT_EQ(last, 1);
  EXPECT_FALSE(got->object.chunk_is_good(0));
  EXPECT_TRUE(got->object.chunk_is_good(1));
}

TEST_F(AttachTest, WhatIsNotInThePageCacheIsMeasured) {
  make(kLargeBytes);
  if (!evict()) GTEST_SKIP() << "SKIP: the page cache of this file system cannot be emptied";
  const auto got = attached(AttachChoice::kMeasured);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_LT(got->report.cached_fraction, 0.05);
  EXPECT_TRUE(has_bytes(got->object));
  EXPECT_GT(got->report.mapped_bytes_per_s, 0) << got->report.why;
  EXPECT_GT(got->report.direct_bytes_per_s, 0) << got->report.why;
  EXPECT_THAT(got->report.why, HasSubstr("% of direct reads"));

  const auto again = attached(AttachChoice::kMapped);
  ASSERT_TRUE(again);
  const auto warm = attached(AttachChoice::kMeasured);
  ASSERT_TRUE(warm);
  EXPECT_EQ(warm->report.cached_fraction, 1);
  EXPECT_EQ(warm->report.way, AttachWay::kMapped);
  EXPECT_THAT(warm->report.why, HasSubstr("page cache"));
}

TEST_F(AttachTest, DirectReadsLeaveThePageCacheAlone) {
  make(kTestBytes);
  if (!evict()) GTEST_SKIP() << "SKIP: the page cache of this file system cannot be emptied";
  const auto got = attached(AttachChoice::kDirect);
  if (!got && got.error().code == ErrorCode::kUnsupported) {
    GTEST_SKIP() << "SKIP: no direct reads of this file system";
  }
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(has_bytes(got->object));
  const auto after = attached(AttachChoice::kMeasured);
  ASSERT_TRUE(after);
  EXPECT_LT(after->report.cached_fraction, 0.5);
  EXPECT_THAT(after->report.why, HasSubstr("too little"));
}

TEST_F(AttachTest, DamageIsFoundInItsPlaceWhicheverWay) {
  make(kTestBytes);
  for (const int64_t chunk : {2, 1, 0}) {
    flip(chunk * kChunkBytes + 100);
    for (const AttachChoice choice : {AttachChoice::kMapped, AttachChoice::kDirect}) {
      for (const int num_threads : {1, 4}) {
        const auto got = attached(choice, num_threads);
        ASSERT_FALSE(got);
        if (got.error().code == ErrorCode::kUnsupported) continue;
        EXPECT_EQ(got.error().code, ErrorCode::kCorruptData);
        EXPECT_THAT(got.error().message, HasSubstr(section_.object()));
        EXPECT_THAT(got.error().message, HasSubstr("chunk " + std::to_string(chunk) + ", bytes " +
                                                   std::to_string(chunk * kChunkBytes) + " to "));
      }
    }
  }
}

// The first bad chunk is one that is not among those measured, which are the first to be read.
TEST_F(AttachTest, TheFirstBadChunkIsToldWhateverWasMeasured) {
  make(kLargeBytes);
  for (const int64_t chunk : {33, 20, 3, 2}) {
    flip(chunk * kChunkBytes);
    if (!evict()) GTEST_SKIP() << "SKIP: the page cache of this file system cannot be emptied";
    const auto got = attached(AttachChoice::kMeasured, 4);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::kCorruptData);
    EXPECT_THAT(got.error().message, HasSubstr("in chunk " + std::to_string(chunk) + ", bytes"));
  }
}

TEST_F(AttachTest, AFileThatIsShortenedMeanwhileIsRefusedWithBothSizes) {
  for (const AttachChoice choice : {AttachChoice::kMapped, AttachChoice::kDirect}) {
    make(kTestBytes);
    AttachOptions options;
    options.choice = choice;
    options.progress = [&](double /*fraction*/) {
      ASSERT_EQ(::chmod(object_path().c_str(), 0600), 0);
      ASSERT_EQ(::truncate(object_path().c_str(), kChunkBytes + 4096), 0);
    };
    const int code = run_in_child([&] {
      const auto got = attach(open_store(), section_, options);
      EXPECT_IN_CHILD(!got);
      if (got.error().code == ErrorCode::kUnsupported) return kChildSkips;
      EXPECT_IN_CHILD(got.error().code == ErrorCode::kCorruptData);
      EXPECT_IN_CHILD(got.error().message.find("expected " + std::to_string(kTestBytes)) !=
                      std::string::npos);
      EXPECT_IN_CHILD(got.error().message.find("found 4198400") != std::string::npos);
      return 0;
    });
    EXPECT_THAT(code, AnyOf(0, kChildSkips));
    std::filesystem::remove(object_path());
  }
}

TEST_F(AttachTest, AFileOfAnotherSizeIsRefused) {
  make(kTestBytes);
  ASSERT_EQ(::chmod(object_path().c_str(), 0600), 0);
  ASSERT_EQ(::truncate(object_path().c_str(), kTestBytes - 1), 0);
  const auto got = attached(AttachChoice::kMeasured);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kCorruptData);
  EXPECT_THAT(got.error().message, HasSubstr("found " + std::to_string(kTestBytes - 1)));
}

// A system that does not know how to populate: pages are touched.
TEST_F(AttachTest, AnOldSystemIsServedToo) {
  make(kTestBytes);
  const int code = run_in_child([&] {
    if (!fail_calls(SYS_madvise, 2, kPopulateBit, EINVAL)) return kChildSkips;
    EXPECT_IN_CHILD(::madvise(nullptr, 0, 22) != 0 && errno == EINVAL);
    for (const AttachChoice choice : {AttachChoice::kMapped, AttachChoice::kDirect}) {
      const auto got = attached(choice, 3);
      if (!got && got.error().code == ErrorCode::kUnsupported) continue;
      EXPECT_IN_CHILD(got && has_bytes(got->object));
    }
    return 0;
  });
  if (code == kChildSkips) GTEST_SKIP() << "SKIP: calls of the system cannot be filtered here";
  EXPECT_EQ(code, 0);
}

TEST_F(AttachTest, StorageThatFailsIsAnErrorAndNoSignal) {
  make(kTestBytes);
  const auto code_with = [&](int system_code) {
    return run_in_child([&] {
      if (!fail_calls(SYS_madvise, 2, kPopulateBit, system_code)) return kChildSkips;
      const auto got = attached(AttachChoice::kMapped);
      EXPECT_IN_CHILD(!got && got.error().message.find(section_.object()) != std::string::npos);
      return 10 + static_cast<int>(got.error().code);
    });
  };
  const int failed = code_with(EFAULT);
  if (failed == kChildSkips) GTEST_SKIP() << "SKIP: calls of the system cannot be filtered here";
  EXPECT_EQ(failed, 10 + static_cast<int>(ErrorCode::kIo));
  EXPECT_EQ(code_with(ENOMEM), 10 + static_cast<int>(ErrorCode::kResourceExhausted));
}

// Where files cannot be read directly, at all or only when it is tried.
TEST_F(AttachTest, WithoutDirectReadsItIsMapped) {
  make(kLargeBytes);
  if (!evict()) GTEST_SKIP() << "SKIP: the page cache of this file system cannot be emptied";
  const auto why_with = [&](long call, int argument, uint32_t bits) {
    return run_in_child([&] {
      if (!evict() || !fail_calls(call, argument, bits, EINVAL)) return kChildSkips;
      const auto got = attached(AttachChoice::kMeasured);
      EXPECT_IN_CHILD(got && got->report.way == AttachWay::kMapped && has_bytes(got->object));
      const std::string& why = got->report.why;
      if (why.find("no direct reads") != std::string::npos) return 1;
      return why.find("cannot be read") != std::string::npos ? 2 : 3;
    });
  };
  const int no_open = why_with(SYS_openat, 2, O_DIRECT);
  if (no_open == kChildSkips) GTEST_SKIP() << "SKIP: calls of the system cannot be filtered here";
  EXPECT_EQ(no_open, 1);
  EXPECT_EQ(why_with(SYS_pread64, 2, kChunkBytes), 2);
}

TEST_F(AttachTest, WithoutAddressesItIsToldWithBothNumbers) {
  make(kLargeBytes);
  const int code = run_in_child([&] {
    // Enough to map it once, and not once more.
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    // Sanitizers take most of all addresses, and more when it suits them.
    if (pages * 4096 > rlim_t{1} << 40) return kChildSkips;
    const rlim_t limit = pages * 4096 + static_cast<rlim_t>(kLargeBytes) * 3 / 2;
    const rlimit addresses{limit, limit};
    EXPECT_IN_CHILD(::setrlimit(RLIMIT_AS, &addresses) == 0);
    EXPECT_IN_CHILD(attached(AttachChoice::kMapped, 1));
    const auto direct = attached(AttachChoice::kDirect, 1);
    EXPECT_IN_CHILD(!direct);
    if (direct.error().code == ErrorCode::kUnsupported) return kChildSkips;
    EXPECT_IN_CHILD(direct.error().code == ErrorCode::kResourceExhausted);
    const std::string& why = direct.error().message;
    EXPECT_IN_CHILD(why.find(std::to_string(kLargeBytes) + " bytes") != std::string::npos);
    EXPECT_IN_CHILD(why.find(std::to_string(limit) + " bytes") != std::string::npos);
    return 0;
  });
  if (code == kChildSkips) GTEST_SKIP() << "SKIP: no direct reads, or sanitizers";
  EXPECT_EQ(code, 0);
}

TEST_F(AttachTest, WhatIsMissingIsNotFound) {
  make(kTestBytes);
  std::filesystem::remove(object_path());
  EXPECT_EQ(attached(AttachChoice::kMeasured).error().code, ErrorCode::kNotFound);
  section_.bytes = -1;
  EXPECT_EQ(attached(AttachChoice::kMeasured).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace stoker::snapshot
