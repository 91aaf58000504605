#include "checkpoint/problems.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(Problems, OneIsToldAsItIs) {
  Problems problems;
  EXPECT_TRUE(problems.empty());
  problems.add({ErrorCode::kIo, "a: broken", ""});
  EXPECT_FALSE(problems.empty());
  EXPECT_EQ(problems.joined().code, ErrorCode::kIo);
  EXPECT_EQ(problems.joined().message, "a: broken");
}

TEST(Problems, TwentyAreSpelledOutAndAThousandKept) {
  Problems problems;
  for (int i = 1; i <= 20; ++i) problems.add_corrupt("p" + std::to_string(i));
  const std::string twenty = problems.joined().message;
  EXPECT_EQ(twenty.substr(0, 17), "20 problems\n  p1\n");
  EXPECT_EQ(twenty.substr(twenty.size() - 6), "\n  p20");
  EXPECT_EQ(problems.messages().size(), 20U);

  for (int i = 21; i <= 1003; ++i) problems.add_corrupt("p" + std::to_string(i));
  const std::string all = problems.joined().message;
  EXPECT_EQ(all, "1003" + twenty.substr(2) + "\n  and 983 more");
  EXPECT_EQ(problems.messages().size(), 1001U);
  EXPECT_EQ(problems.messages()[999], "p1000");
  EXPECT_EQ(problems.messages().back(), "and 3 more");
}

}  // namespace
}  // namespace stoker
