#include "stoker/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/try.h"
#include "stoker/result.h"

namespace stoker {
namespace {

// The table of docs/architecture.md, row by row.
TEST(Error, EveryCodeIsToldAsDocumented) {
  struct Row {
    ErrorCode code;
    int http;
    std::string python;
    int exit;
  };
  const Row rows[] = {
      {ErrorCode::kInvalidArgument, 400, "ValueError", 2},
      {ErrorCode::kUnsupported, 400, "NotImplementedError", 2},
      {ErrorCode::kNotFound, 404, "KeyError", 2},
      {ErrorCode::kOverloaded, 429, "OverloadedError", 4},
      {ErrorCode::kCancelled, 0, "CancelledError", 4},
      {ErrorCode::kDeadlineExceeded, 504, "TimeoutError", 4},
      {ErrorCode::kResourceExhausted, 503, "MemoryError", 3},
      {ErrorCode::kPeerLost, 503, "ConnectionError", 3},
      {ErrorCode::kIo, 500, "OSError", 3},
      {ErrorCode::kCorruptData, 500, "CorruptDataError", 3},
      {ErrorCode::kInternal, 500, "RuntimeError", 3},
  };
  std::set<std::string> names;
  for (const Row& row : rows) {
    const ErrorCodeInfo& info = error_code_info(row.code);
    EXPECT_EQ(info.code, row.code);
    EXPECT_EQ(info.http_status, row.http) << info.name;
    EXPECT_EQ(info.python_type, row.python) << info.name;
    EXPECT_EQ(info.exit_code, row.exit) << info.name;
    names.insert(info.name);
  }
  EXPECT_EQ(names.size(), std::size(rows));
}

Result<int> half(int x) {
  if (x % 2 != 0)
    return Error{ErrorCode::kInvalidArgument, "expected an even number, found " + std::to_string(x),
                 "x"};
  return x / 2;
}

Result<int> quarter(int x) {
  TRY_ASSIGN(const int once, half(x));
  TRY_ASSIGN(int twice, half(once));
  return twice;
}

TEST(Result, TryAssignPassesValuesAndErrorsOn) {
  ASSERT_TRUE(quarter(12));
  EXPECT_EQ(*quarter(12), 3);
  const auto failed = quarter(6);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "expected an even number, found 3");
  EXPECT_EQ(failed.error().field, "x");
}

TEST(Result, WithAddsContextToErrorsOnly) {
  EXPECT_EQ(half(3).with("layer 7").error().message, "layer 7: expected an even number, found 3");
  EXPECT_EQ(*half(4).with("layer 7"), 2);
  EXPECT_FALSE(Result<void>(Error{ErrorCode::kIo, "m", ""}).with("a"));
  EXPECT_TRUE(Result<void>().with("a"));
}

}  // namespace
}  // namespace stoker
